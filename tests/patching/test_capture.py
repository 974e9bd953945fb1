"""Capture: what comes out is short, scoped and makes the new bytes; all else is refused."""

from __future__ import annotations

import argparse
import inspect
import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement

from pipeline.cli import main
from pipeline.errors import Refusal
from pipeline.patching import capture as module
from pipeline.patching.capture import Captured, capture
from pipeline.patching.matching import occurrences
from pipeline.patching.model import Edit, Patch
from pipeline.patching.outcomes import EditResult, Outcome
from pipeline.patching.scopes import find_scope
from tests.examples import examples

FIXTURES = Path(__file__).parents[1] / "fixtures" / "patching"
REAL = {
    "argparse.py": Path(inspect.getfile(argparse)).read_bytes(),
    "random.py": Path(inspect.getfile(random)).read_bytes(),
    "tiles.cuh": (FIXTURES / "tiles.cuh").read_bytes(),
}

OLD = b"""import x


class Backend:
    @classmethod
    def supports(cls, capability):
        return capability.major == 9

    def name(self):
        return "a"


def supports(capability):
    return capability.major == 9
"""


def made(old: bytes, new: bytes, path: str = "pkg/a.py") -> Captured:
    return capture("p", Requirement("pkg==1.*"), {path: (old, new)}, "3.11")


def test_short_and_scoped() -> None:
    new = OLD.replace(b"== 9", b"in (9, 12)", 1)
    (edit,) = made(OLD, new).patch.variants[0].edits
    assert edit.within == "Backend.supports"
    assert edit.find in "return capability.major == 9"
    assert len(edit.find) < 25
    assert edit.id == "p.1"


def test_text_is_valid_and_has_the_same_values() -> None:
    captured = made(OLD, OLD.replace(b'"a"', b"'''b'''"))
    data = tomllib.loads(captured.text)
    assert data["variants"][0]["for"] == "pkg==1.*"
    assert data["variants"][0]["edits"][0]["find"] == captured.patch.variants[0].edits[0].find


def test_changes_of_one_function_and_of_two() -> None:
    new = OLD.replace(b"== 9", b"in (9, 12)").replace(b"import x", b"import x\nimport y")
    scopes = [edit.within for edit in made(OLD, new).patch.variants[0].edits]
    assert scopes == [None, "Backend.supports", "supports"]


def test_new_function_belongs_to_what_is_around_it() -> None:
    new = OLD.replace(b"    def name", b"    def more(self):\n        return 1\n\n    def name")
    (edit,) = made(OLD, new).patch.variants[0].edits
    assert edit.within == "Backend"


def test_renamed_function_is_looked_for_where_it_stays() -> None:
    (edit,) = made(OLD, OLD.replace(b"def name", b"def title")).patch.variants[0].edits
    assert edit.within == "Backend"


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_line_ends_stay(end: bytes) -> None:
    old = OLD.replace(b"\n", end)
    new = old.replace(b"import x" + end, b"import x" + end + b"import y" + end)
    captured = made(old, new)
    assert "\\r" in captured.text
    assert "\r" not in captured.text


def test_mixed_line_ends_stay() -> None:
    old = OLD.replace(b"\n", b"\r\n", 5)
    made(old, old.replace(b"9\r\n", b"10\r\n").replace(b"9\n", b"11\n"))


def test_encodings() -> None:
    old = b"# coding: latin-1\nx = '\xe9'\ny = 1\n"
    (edit,) = made(old, old.replace(b"\xe9", b"\xe8")).patch.variants[0].edits
    assert "è" in edit.replace
    stray = b"// \xb4\nint x = 1;\n"
    assert made(stray, stray.replace(b"1;", b"2;"), "pkg/a.cuh")
    with pytest.raises(Refusal, match="no anchor can name"):
        made(stray, stray.replace(b"\xb4", b"\xb5"), "pkg/a.cuh")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (OLD, OLD, "do not differ"),
        (b"", b"x = 1\n", "is empty"),
        (b"x = 1\n", b"", "no anchor"),
        (b"x = 1\ny = 2\n", b"x = 1\n", "no anchor"),
        (b"x = 1\n\0", b"x = 2\n\0", "NUL"),
        (b"x = 1\n", b"x = 1\0\n", "NUL"),
        (b"x = 1\n", b"x = (\n", "safe"),
    ],
)
def test_what_cannot_be_expressed_is_refused(old: bytes, new: bytes, said: str) -> None:
    with pytest.raises(Refusal, match=said):
        made(old, new)


def test_huge_file() -> None:
    old = b"".join(b"line %d\n" % n for n in range(400_000)) + b"y = 0\n" * 400_000
    (edit,) = (
        made(old, old.replace(b"line 777\n", b"line 778\n"), "pkg/a.txt").patch.variants[0].edits
    )
    assert len(edit.find) < 40


def _rename(rng: random.Random, line: bytes) -> list[bytes]:
    return [re.sub(rb"\b(\d+)\b", lambda m: b"%d" % rng.randint(0, 99), line)]


def _comment(rng: random.Random, line: bytes) -> list[bytes]:
    indent = line[: len(line) - len(line.lstrip())]
    return [indent + b"# note %d\n" % rng.randint(0, 3), line]


def _blank(rng: random.Random, line: bytes) -> list[bytes]:
    return [line, b"\n"] if line.strip() else []


def _slashes(rng: random.Random, line: bytes) -> list[bytes]:
    return [line.rstrip(b"\\\n") + b"  // %d\n" % rng.randint(0, 3)]


CHANGES: dict[str, list[Callable[[random.Random, bytes], list[bytes]]]] = {
    ".py": [_rename, _comment, _blank],
    ".cuh": [_rename, _slashes, _blank, lambda rng, line: [], lambda rng, line: [line, line]],
}


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(REAL)), st.integers(0, 10**9), st.integers(1, 8))
def test_random_edits_of_real_files(name: str, seed: int, count: int) -> None:
    """Capture and apply give the edited file, and each edit stays in its scope."""
    rng, old = random.Random(seed), REAL[name]
    lines = old.splitlines(keepends=True)
    for _ in range(count):
        at = rng.randrange(1, len(lines) - 1)
        lines[at : at + 1] = rng.choice(CHANGES[Path(name).suffix])(rng, lines[at])
    new = b"".join(lines)
    try:
        captured = made(old, new, name)
    except Refusal as refusal:
        said = " ".join([refusal.message, *refusal.details])
        assert "would-not-parse" in said or "do not differ" in said
        return
    for edit in captured.patch.variants[0].edits:
        span = (0, len(old))
        if edit.within:
            scope = find_scope(name, old, edit.within)
            span = (scope.start, scope.end)
        assert len(occurrences(old, span, edit.find.encode())) == 1


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.sampled_from(["x\n", "x y\n", "\n", "é\r\n", "z"]), min_size=1, max_size=10),
    st.lists(st.sampled_from(["x\n", "x y\n", "\n", "é\r\n", "w"]), min_size=1, max_size=10),
)
def test_any_two_texts_are_captured_or_refused(old: list[str], new: list[str]) -> None:
    """What is returned was proved; everything else is a refusal, never another error."""
    try:
        made("".join(old).encode(), "".join(new).encode(), "pkg/a.txt")
    except Refusal:
        return


def test_verb_with_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = tmp_path / "lib/python3.11/site-packages/pkg"
    site.mkdir(parents=True)
    (site / "a.py").write_bytes(OLD)
    (tmp_path / "b.py").write_bytes(OLD.replace(b'"a"', b'"b"'))
    old, new = str(site / "a.py"), str(tmp_path / "b.py")
    assert main(["patches", "capture", old, new, "--for", "pkg==1.*"]) == 0
    assert 'file = "pkg/a.py"' in capsys.readouterr().out
    out = tmp_path / "mine.toml"
    assert main(["patches", "capture", old, new, "--for", "pkg==1.*", "--output", str(out)]) == 0
    assert 'name = "mine"' in out.read_text(encoding="utf-8")
    assert main(["patches", "capture", old, new, "--for", "pkg==1.*", "--output", str(out)]) == 2
    assert main(["patches", "capture", new, old, "--for", "pkg==1.*"]) == 0
    assert main(["patches", "capture", new, new, "--for", "pkg==1.*"]) == 2
    assert main(["patches", "capture", old, old, "--for", "pkg==1.*"]) == 1
    assert main(["patches", "capture", old, new, "--for", "pkg=1"]) == 2


def test_verb_with_trees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("old", OLD), ("new", OLD.replace(b'"a"', b'"b"'))):
        site = tmp_path / name / "site-packages"
        (site / "pkg/__pycache__").mkdir(parents=True)
        (site / "pkg-1.dist-info").mkdir()
        (site / "pkg/a.py").write_bytes(text)
        (site / "pkg/same.py").write_bytes(b"x = 1\n")
        (site / "pkg/__pycache__/a.cpython-311.pyc").write_bytes(text)
        (site / "pkg-1.dist-info/RECORD").write_bytes(b"%d" % len(name))
    trees = [str(tmp_path / "old"), str(tmp_path / "new")]
    assert main(["patches", "capture", *trees, "--for", "pkg==1.*"]) == 0
    out = capsys.readouterr().out
    assert out.count("[[variants.edits]]") == 1
    assert 'file = "pkg/a.py"' in out
    (tmp_path / "new/site-packages/pkg/more.py").write_bytes(b"")
    (tmp_path / "new/site-packages/pkg/same.py").unlink()
    assert main(["patches", "capture", *trees, "--for", "pkg==1.*"]) == 1
    err = capsys.readouterr().err
    assert "more.py: only in NEW" in err
    assert "same.py: only in OLD" in err


@pytest.mark.parametrize(
    ("path", "old", "new", "edits"),
    [
        # What one anchor cannot hold is joined with its neighbour, and with no more than that.
        (
            "l.py",
            b"\n\ncy = 2\n\nbc",
            b"c\n\ncy = 2\n\nc",
            [("\n\ncy = 2\n\nbc", "c\n\ncy = 2\n\nc")],
        ),
        (
            "t.txt",
            b"y = 2\n\n\x7f\n \n",
            b"\ny = 2\n\x7f\n\n",
            [("y = 2", "\ny = 2"), ("\n\x7f\n \n", "\x7f\n\n")],
        ),
        # An anchor stays between what its neighbours write, and may begin where one ends.
        ("t.txt", b"b\n", b"\nb\n\x7f", [("b\n", "\nb\n\x7f")]),
        ("t.txt", b"x = 1\nb", b"\nx = 1\n\n", [("x = 1", "\nx = 1"), ("\nb", "\n\n")]),
        # The first byte of a file is as good as any.
        ("t.txt", b"a", b"b", [("a", "b")]),
        ("t.txt", b"b", b"b ", [("b", "b ")]),
        # In a file that is not UTF-8 it stays between the bytes that are not ASCII.
        ("t.txt", b"\xe9\n", b"\xe9\nc", [("\n", "\nc")]),
        ("t.txt", b"\xe9\x7f", b"\xe9\x7fa", [("\x7f", "\x7fa")]),
        ("t.txt", b"c \xe9", b"c\n \xe9", [("c", "c\n")]),
        ("t.txt", b"\xe9  \x7f", b"\xe9   \x7f", [("  \x7f", "   \x7f")]),
    ],
)
def test_small_changes(path: str, old: bytes, new: bytes, edits: list[tuple[str, str]]) -> None:
    found = made(old, new, path).patch.variants[0].edits
    assert [(edit.find, edit.replace, edit.within) for edit in found] == [
        (find, replace, None) for find, replace in edits
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b"\xe9", b"\xe9\n", "line 1: no anchor can hold this change"),
        (b"\n", b"", "line 1: no anchor can hold this change"),
        (
            b"\n\n\xe9b",
            b"\n\nb",
            "line 2: the change holds text that no anchor can name: it is not UTF-8 (byte 2)",
        ),
        (
            b"a\xe9\n ",
            b"a ",
            "line 1: the change holds text that no anchor can name: it is not UTF-8 (byte 1)",
        ),
        (
            b"\n",
            b"\xe9",
            "line 1: the change holds text that no anchor can name: not the same in UTF-8 after "
            "reading it",
        ),
    ],
)
def test_small_changes_that_are_refused_say_where_and_why(
    old: bytes, new: bytes, said: str
) -> None:
    with pytest.raises(Refusal) as caught:
        made(old, new, "t.txt")
    assert str(caught.value).splitlines()[0] == f"t.txt {said}"


def test_several_files_make_one_patch() -> None:
    names = ["pkg/c.py", "pkg/a.py", "pkg/b.py"]
    files = {name: (OLD, OLD.replace(b"== 9", b"in (9, 12)", 1)) for name in names}
    for count, title in [
        (1, "Edits of pkg/c.py"),
        (2, "Edits of pkg/a.py, pkg/c.py"),
        (3, "Edits of 3 files"),
    ]:
        some = dict(list(files.items())[:count])
        patch = capture("p", Requirement("pkg==1.*"), some, "3.11").patch
        found = patch.variants[0].edits
        assert [(edit.id, edit.file) for edit in found] == [
            (f"p.{number}", name) for number, name in enumerate(sorted(some), 1)
        ]
        assert patch.title == title
    # A file that is the same takes no part.
    patch = capture(
        "p", Requirement("pkg==1.*"), {**files, "pkg/same.py": (OLD, OLD)}, "3.11"
    ).patch
    assert [edit.file for edit in patch.variants[0].edits] == sorted(files)


def failing(
    monkeypatch: pytest.MonkeyPatch, *answers: tuple[Outcome, Callable[[Edit], bool]]
) -> list[list[str | None]]:
    """Make the proof say no: with an outcome, of the edits that a question is about. The scopes of
    all edits are kept for each time that it is asked."""
    asked: list[list[str | None]] = []
    proof = module._failures

    def prove(patch: Patch, *rest: object) -> tuple[EditResult, ...]:
        edits = patch.variants[0].edits
        asked.append([edit.within for edit in edits])
        failed = tuple(
            EditResult(patch.name, edit.id, edit.file, edit.within, outcome)
            for outcome, question in answers
            for edit in edits
            if question(edit)
        )
        return failed or proof(patch, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_failures", prove)
    return asked


TWO_FILES = {
    name: (OLD, OLD.replace(b"== 9", b"in (9, 12)", 1)) for name in ("pkg/a.py", "pkg/b.py")
}


def test_a_file_whose_scopes_fail_the_proof_is_tried_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = failing(monkeypatch, (Outcome.SCOPE_MISSING, lambda edit: edit.within is not None))
    capture("p", Requirement("pkg==1.*"), TWO_FILES, "3.11")
    assert asked == [["Backend.supports"] * 2, [None, None]]


def test_files_are_tried_without_scopes_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def first_only(edit: Edit) -> bool:
        """The first file's scopes fail; when it has none, the second's."""
        seen.append(edit.file)
        calls = len(seen)
        return edit.within is not None and (edit.file == "pkg/a.py" or calls > 2)

    asked = failing(monkeypatch, (Outcome.SCOPE_MISSING, first_only))
    capture("p", Requirement("pkg==1.*"), TWO_FILES, "3.11")
    scope = "Backend.supports"
    assert asked == [[scope, scope], [None, scope], [None, None]]


@pytest.mark.parametrize("outcome", [Outcome.WOULD_NOT_PARSE, Outcome.SCOPE_MISSING])
def test_what_fails_the_proof_without_scopes_too_is_refused(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    asked = failing(monkeypatch, (outcome, lambda edit: True))
    with pytest.raises(Refusal, match="cannot be expressed as edits that are safe"):
        capture("p", Requirement("pkg==1.*"), TWO_FILES, "3.11")
    # Text that does not parse has nothing to do with scopes.
    assert len(asked) == (1 if outcome is Outcome.WOULD_NOT_PARSE else 2)


def test_the_proof_reads_the_text_and_compares_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    new = OLD.replace(b"== 9", b"in (9, 12)", 1)
    patch, text = (one := made(OLD, new)).patch, one.text
    files = {"pkg/a.py": (OLD, new)}
    assert module._failures(patch, text, files, "3.11") == ()
    with pytest.raises(Refusal, match="makes no valid patch"):
        module._failures(patch, text.replace("find =", "fnd ="), files, "3.11")
    with pytest.raises(Refusal, match="does not survive being written and read"):
        module._failures(patch, text.replace("(9, 12)", "(9, 13)"), files, "3.11")
    with pytest.raises(Refusal, match="does not give the new bytes"):
        module._failures(patch, text, {"pkg/a.py": (OLD, new + b"\n")}, "3.11")
    with pytest.raises(Refusal, match=r"pkg/b\.py: applying the patch does not give"):
        module._failures(patch, text, {**files, "pkg/b.py": (b"a\n", b"b\n")}, "3.11")

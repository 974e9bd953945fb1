"""Port: the proposals as a new variant, at the end of a file that otherwise stays as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from pipeline.errors import OutsideTrouble
from pipeline.patching.loading import load_patch
from pipeline.patching.port import Ported, append, port
from pipeline.patching.sources import Source
from pipeline.patching.survey import survey
from pipeline.patching.verdicts import State

OLD = b"def f():\n    return 1\n\n\ndef g():\n    return 2\n"

PATCH = """# The head stays.
name = "mine"   # so does this
title = "one line"
why = "because"
upstream = ""
distribution = "pkg"

[[variants]]
for = "pkg==1.4.*"  # and this

[[variants.upstream]]
file = "pkg/a.py"
within = "f"
contains = '''fixed'''

[[variants.edits]]
id = "e.a"
file = "pkg/a.py"
within = "f"
find = '''return 1'''
replace = '''return 10'''

# Between two edits.
[[variants.edits]]
id = "e.b"
file = "pkg/a.py"
within = "g"
find = '''return 2'''
replace-file = "mine.py.txt"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(PATCH, encoding="utf-8", newline="\n")
    (tmp_path / "mine.py.txt").write_text("return 20", encoding="utf-8")
    return tmp_path / "mine.toml"


def source(files: dict[str, bytes], version: str = "2.1.3") -> Source:
    return Source("pkg", files.get, {"pkg": Version(version)}, "3.11", lambda _: sorted(files))


def ported(path: Path, files: dict[str, bytes], version: str = "2.1.3") -> Ported:
    target = source(files, version)
    origin = {"pkg/a.py": OLD}.get
    (report,) = survey([load_patch(path)], target, lambda *_: origin).patches
    return port(report, target, path)


def test_variant_is_added_and_passes(path: Path) -> None:
    before = path.read_bytes()
    files = {"pkg/b.py": OLD}
    done = ported(path, files)
    assert not done.problem
    append(path, done.text)
    assert path.read_bytes().startswith(before)
    patch = load_patch(path)
    assert [variant.label for variant in patch.variants] == ["pkg==1.4.*", "pkg==2.1.*"]
    assert [edit.file for edit in patch.variants[1].edits] == ["pkg/b.py", "pkg/b.py"]
    assert [(t.file, t.within) for t in patch.variants[1].upstream] == [("pkg/b.py", "f")]
    assert patch.payloads == ("mine.py.txt",)
    assert path.read_text(encoding="utf-8").count("replace-file") == 2
    assert survey([patch], source(files), lambda *_: None).fits
    assert survey([patch], source({"pkg/a.py": OLD}, "1.4.9"), lambda *_: None).fits


def test_what_must_be_read_is_said_and_written(path: Path) -> None:
    done = ported(path, {"pkg/b.py": OLD})
    assert {edit for edit, _ in done.read} == {"e.a", "e.b"}
    assert "# A person must read" in done.text
    assert "pkg/a.py -> pkg/b.py" in done.text
    assert "the test is asked in f of pkg/b.py" in done.text


def test_upstream_test_without_a_place_is_said(path: Path) -> None:
    text = PATCH.replace('within = "f"\ncontains', 'within = "h"\ncontains')
    path.write_text(text, encoding="utf-8", newline="\n")
    done = ported(path, {"pkg/a.py": OLD})
    assert [edit for edit, _ in done.read] == ["upstream"]
    assert "cannot hold any more" in " ".join(done.text.replace("#", " ").split())


def test_nothing_to_read_in_what_has_not_changed(path: Path) -> None:
    done = ported(path, {"pkg/a.py": OLD})
    assert done.text and done.read == ()
    assert "person" not in done.text


def test_a_changed_anchor_is_shown_beside_the_old_one(path: Path) -> None:
    text = PATCH.replace("return 1'''", "return 1\n'''").replace("return 10'''", "return 10\n'''")
    path.write_text(text, encoding="utf-8", newline="\n")
    done = ported(path, {"pkg/a.py": OLD.replace(b"return 1\n", b"return 1  # one\n")})
    assert not done.problem, done
    assert "# e.a: anchor" in done.text
    assert any(edit == "e.a" and "new one" in why for edit, why in done.read)


def test_nothing_is_ported_when_one_edit_has_no_proposal(path: Path) -> None:
    done = ported(path, {"pkg/a.py": OLD.replace(b"return 2", b"return None")})
    assert (done.text, done.report.state) == ("", State.DOES_NOT_FIT)
    assert "e.b" in done.problem


def test_upstream_needs_no_variant(path: Path) -> None:
    done = ported(path, {"pkg/a.py": OLD.replace(b"return 1", b"return fixed")})
    assert (done.text, done.problem, done.report.state) == ("", "", State.UPSTREAM)


def test_a_variant_that_does_not_fit_its_own_release_is_not_doubled(path: Path) -> None:
    done = ported(path, {"pkg/a.py": b"x = 1\n"}, "1.4.2")
    assert "already" in done.problem


def test_a_file_that_cannot_take_a_variant_is_refused(path: Path) -> None:
    head = PATCH[: PATCH.index("[[variants]]")]
    edit = '{ id = "e", file = "pkg/a.py", within = "f", find = "return 1", replace = "return 3" }'
    inline = f'variants = [{{ for = "pkg==1.4.*", edits = [{edit}] }}]\n'
    path.write_text(head + inline, encoding="utf-8")
    done = ported(path, {"pkg/a.py": OLD})
    assert "no valid TOML" in done.problem
    assert path.read_text(encoding="utf-8") == head + inline


@pytest.mark.parametrize(
    ("label", "version", "expected"),
    [
        ("pkg==1.4.*", "2.0", "pkg==2.0.*"),
        ("pkg==1.4.*", "3", "pkg==3.0.*"),
        ("pkg==1.*", "2.0.1", "pkg==2.*"),
        ("pkg==1.4.2", "2.0.1", "pkg==2.0.1"),
        ("pkg>=1,<2", "2.0.1+cu130", "pkg==2.0.1+cu130"),
        ("pkg==1.4.*", "1!2.0", "pkg==1!2.0"),
    ],
)
def test_the_new_line_is_as_wide_as_the_old(
    path: Path, label: str, version: str, expected: str
) -> None:
    path.write_text(PATCH.replace("pkg==1.4.*", label), encoding="utf-8", newline="\n")
    done = ported(path, {"pkg/a.py": OLD}, version)
    assert f'for = "{expected}"' in done.text, done


def test_line_ends_of_the_file_are_kept(path: Path) -> None:
    path.write_bytes(PATCH.rstrip().replace("\n", "\r\n").encode())
    done = ported(path, {"pkg/a.py": OLD})
    append(path, done.text)
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert len(load_patch(path).variants) == 2


def test_the_note_of_a_port_in_full(path: Path) -> None:
    text = PATCH.replace('within = "f"\ncontains', "contains")
    path.write_text(text, encoding="utf-8", newline="\n")
    done = ported(path, {"pkg/b.py": OLD})
    note = [line for line in done.text.splitlines() if line.startswith("#")]
    assert note == [
        "# Ported from pkg==1.4.* by `patches port` against 2.1.3.",
        "# e.a: file pkg/a.py -> pkg/b.py",
        "# e.b: file pkg/a.py -> pkg/b.py",
        "# upstream: the test is asked in pkg/b.py",
        "# A person must read, and then remove this note:",
        "# - e.a: it is in another place: see that this is the one that runs",
        "# - e.b: it is in another place: see that this is the one that runs",
    ]


@pytest.mark.parametrize(
    ("within", "place"), [('within = "h"\n', "h of pkg/c.py"), ("", "pkg/c.py")]
)
def test_a_lost_test_is_told_by_its_place(path: Path, within: str, place: str) -> None:
    test = f'[[variants.upstream]]\nfile = "pkg/c.py"\n{within}contains = "fixed"\n'
    head, _, rest = PATCH.partition("[[variants.upstream]]")
    rest = rest[rest.index("[[variants.edits]]") :]
    path.write_text(head + test + rest, encoding="utf-8", newline="\n")
    done = ported(path, {"pkg/a.py": OLD})
    assert done.read == (("upstream", f"{place} is not there, so this test cannot hold any more"),)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_a_file_gets_text_in_its_own_line_ends(tmp_path: Path, end: str, last: bool) -> None:
    path = tmp_path / "a.toml"
    before = f"a = 1{end}b = 2{end if last else ''}"
    path.write_bytes(before.encode())
    path.chmod(0o640)
    append(path, "\nc = 3\n")
    assert path.read_bytes().decode() == f"a = 1{end}b = 2{end}{end}c = 3{end}"
    assert path.stat().st_mode & 0o7777 == 0o640
    assert [one.name for one in tmp_path.iterdir()] == ["a.toml"]


def test_a_file_that_cannot_be_written_is_outside_trouble(tmp_path: Path) -> None:
    with pytest.raises(OutsideTrouble, match=r"none\.toml cannot be written: No such file"):
        append(tmp_path / "none.toml", "x")


def test_a_payload_in_a_directory_is_ported_too(path: Path) -> None:
    inner = path.parent / "deep" / "down"
    inner.mkdir(parents=True)
    (path.parent / "mine.py.txt").rename(inner / "mine.py.txt")
    text = PATCH.replace('"mine.py.txt"', '"deep/down/mine.py.txt"')
    path.write_text(text, encoding="utf-8", newline="\n")
    done = ported(path, {"pkg/b.py": OLD})
    assert done.problem == "" and 'replace-file = "deep/down/mine.py.txt"' in done.text


def test_what_is_not_there_is_not_ported(path: Path) -> None:
    target = Source("none", {}.get, {}, "3.11", lambda _: [])
    (report,) = survey([load_patch(path)], target, lambda *_: None).patches
    done = port(report, target, path)
    assert done.text == "" and done.problem == report.message != ""


def test_proposals_that_do_not_go_together_are_not_written(path: Path) -> None:
    old = OLD.replace(b"return 1", b"return a(x)+b(y)")
    text = PATCH.replace("return 1'''", "a(x)'''").replace("return 10'''", "a(z)'''")
    text = text.replace('within = "g"', 'within = "f"').replace("return 2'''", "b(y)'''")
    text = text.replace('replace-file = "mine.py.txt"', "replace = '''b(z)'''")
    path.write_text(text, encoding="utf-8", newline="\n")
    target = source({"pkg/a.py": old.replace(b"x)", b"x,3)").replace(b"y)", b"y,3)")})
    (report,) = survey([load_patch(path)], target, lambda *_: {"pkg/a.py": old}.get).patches
    assert all(edit.proposal for edit in report.edits)
    done = port(report, target, path)
    assert done.text == "" and done.problem.startswith("what is proposed does not fit: e."), done


@pytest.mark.parametrize(
    ("length", "lines"),
    [(106, ["{0} -> {1}"]), (107, ["{0} ->", "  {1}"]), (180, ["{0} ->", "  {1}"])],
)
def test_notes_are_folded_between_words_only(path: Path, length: int, lines: list[str]) -> None:
    head = "e.a: file pkg/a.py"
    name = f"pkg/{'long-' * 40}"[: length - len(f"{head} -> .py")] + ".py"
    note = ported(path, {name: OLD}).text.splitlines()
    for line in lines:
        assert f"# {line.format(head, name)}" in note

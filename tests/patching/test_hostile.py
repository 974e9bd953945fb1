"""Targets and patch files that nobody should send: an answer comes, in time, and is right."""

from __future__ import annotations

import argparse
import inspect
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.errors import FaultyFile, Refusal
from pipeline.patching.capture import capture
from pipeline.patching.evaluate import evaluate
from pipeline.patching.loading import load_patch
from pipeline.patching.model import Edit, Patch, Variant
from pipeline.patching.outcomes import Evaluation, Outcome
from pipeline.patching.scopes import ScopeFault, find_scope, scopes_around
from pipeline.patching.sources import Source
from pipeline.patching.survey import survey
from pipeline.patching.verdicts import Verdict
from tests.examples import examples

FIXTURES = Path(__file__).parents[1] / "fixtures" / "patching"
REAL = {
    "argparse.py": Path(inspect.getfile(argparse)).read_bytes(),
    "random.py": Path(inspect.getfile(random)).read_bytes(),
    "tiles.cuh": (FIXTURES / "tiles.cuh").read_bytes(),
}
HUGE = b"value = 12345678901234567890123456789012345678901234567890\n" * 1_750_000
NESTED = b'''
def f():
    text = """
def g():
    x = 1
"""
    if text:
        async def g():
            x = 1
    else:
        def g():
            x = 1
    def h():
        def h():
            x = 1
        return h
    return g, h


@overload
def k(x: int): ...
@overload
def k(x: str): ...
def k(x):
    x = 1


@decorated(lambda: "def d(): x = 1")
@twice
async def d():
    x = 1
'''


def patch(edit: Edit) -> Patch:
    return Patch("p", "t", "w", "", "d", (Variant(Requirement("d==1"), (edit,)),))


def ask(file: str, data: bytes, find: str, replace: str, within: str | None = None) -> Evaluation:
    change = patch(Edit("e", file, find, replace, within))
    return evaluate([change], {file: data}.get, {"d": Version("1")}, "3.11")


def outcome(evaluation: Evaluation) -> Outcome:
    return evaluation.patches[0].edits[0].outcome


def test_target_of_100_megabytes() -> None:
    assert len(HUGE) > 100_000_000
    data = HUGE + b"x = 1\r\n"
    began = time.process_time()
    evaluation = ask("a.txt", data, "x = 1", "x = 2")
    assert evaluation.files["a.txt"].data == HUGE + b"x = 2\r\n"
    assert outcome(ask("a.txt", data, "x = 7", "x = 8")) is Outcome.ANCHOR_MISSING
    assert outcome(ask("a.py", data, "x = 1", "x = 2", "f")) is Outcome.SCOPE_MISSING
    assert time.process_time() - began < 20


def test_100_megabytes_beside_the_target() -> None:
    files = {"a.py": b"y = 1\n", "b.py": HUGE, "c.py": b"def f():\n    x = 1\n"}
    source = Source("d 2", files.get, {"d": Version("2")}, "3.11", lambda _: sorted(files))
    began = time.process_time()
    edit = Edit("e", "a.py", "x = 1", "x = 2", "f")
    (report,) = survey([patch(edit)], source, lambda *_: files.get).patches
    assert report.edits[0].verdict is Verdict.MOVED
    assert time.process_time() - began < 20


def test_capture_of_100_megabytes() -> None:
    began = time.process_time()
    new = HUGE[:50_000_000] + b"\nx = 1\n" + HUGE[50_000_000:]
    try:
        capture("p", Requirement("d==1"), {"a.txt": (HUGE, new)}, "3.11")
    except Refusal as refusal:  # every line is like every other: nothing to hold on to
        assert "no anchor" in refusal.message
    assert time.process_time() - began < 30


@pytest.mark.parametrize("data", [b"x = 1\n\0", b"\0", "x = 1\n".encode("utf-16"), b"\xff\0\xff"])
def test_nul_bytes(data: bytes) -> None:
    assert outcome(ask("a.py", data, "x = 1", "x = 2")) is Outcome.NOT_TEXT


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_an_anchor_are_exact(end: str) -> None:
    data = f"def f():{end}    x = 1{end}    y = 1{end}".encode()
    for used in ("\n", "\r\n", "\r"):
        fits = ask("a.py", data, f"x = 1{used}    y", f"x = 2{used}    y", "f").fits
        assert fits == (used == end)


def test_mixed_line_ends_stay() -> None:
    data = b"a = 1\r\nb = 1\nc = 1\rd = 1\n"
    assert ask("a.txt", data, "c = 1", "c = 2").files["a.txt"].data == (
        b"a = 1\r\nb = 1\nc = 2\rd = 1\n"
    )


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        ("g", Outcome.SCOPE_MISSING),
        ("f.g", Outcome.SCOPE_AMBIGUOUS),
        ("f.h.h", Outcome.APPLIED),
        ("f.h", Outcome.APPLIED),
        ("k", Outcome.SCOPE_AMBIGUOUS),
        ("d", Outcome.APPLIED),
        ("f.d", Outcome.SCOPE_MISSING),
    ],
)
def test_names_in_names(within: str, expected: Outcome) -> None:
    evaluation = ask("a.py", NESTED, "x = 1\n", "x = 2\n", within)
    assert outcome(evaluation) is expected
    for image in evaluation.files.values():
        scope = find_scope("a.py", NESTED, within)
        assert image.data.startswith(NESTED[: scope.start])
        assert image.data.endswith(NESTED[scope.end :])


@pytest.mark.parametrize(
    ("within", "find", "expected"),
    [
        ("copy_rows", "T(0)", Outcome.APPLIED),
        ("kernels.copy_rows", "T(0)", Outcome.APPLIED),
        ("Storage", "row * 512", Outcome.SCOPE_AMBIGUOUS),
        ("Storage.at", "row * 512", Outcome.SCOPE_AMBIGUOUS),
        ("rounded", "value", Outcome.SCOPE_AMBIGUOUS),
        ("Params.factor", "return", Outcome.SCOPE_AMBIGUOUS),
        ("Params", "return 1.0f", Outcome.APPLIED),
        ("Tiles", "int N", Outcome.SCOPE_MISSING),
        ("DISPATCH_TILE", "ROWS", Outcome.SCOPE_MISSING),
        ("copy_kernel", "params.count > TILE * 2", Outcome.APPLIED),
        ("launch", "? 64 : 32", Outcome.APPLIED),
    ],
)
def test_templates_overloads_and_branches(within: str, find: str, expected: Outcome) -> None:
    evaluation = ask("tiles.cuh", REAL["tiles.cuh"], find, f"/* new */ {find}", within)
    assert outcome(evaluation) is expected


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(REAL)), st.integers(0, 10**9), st.text("ab {}\n\t(é\"'#", max_size=9))
def test_no_edit_of_a_real_file_leaves_its_scope(name: str, seed: int, text: str) -> None:
    """Any text of any scope, replaced by anything: what is outside of the scope stays."""
    rng, data = random.Random(seed), REAL[name]
    at = rng.randrange(len(data))
    around = scopes_around(name, data, at, at)
    if not around:
        return
    within, scope = rng.choice(around)
    start = rng.randrange(scope.start, scope.end)
    find = data[start : start + rng.randrange(1, 60)].decode("utf-8", "ignore")
    for image in ask(name, data, find, text or "x", within).files.values():
        assert image.data.startswith(data[: scope.start])
        assert image.data.endswith(data[scope.end :])
        assert len(image.data) == len(data) + len((text or "x").encode()) - len(find.encode())


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 10_000,
        "a = {" + "b = {" * 3_000,
        "name = 'a'\x00",
        "\ufeffname = 'good'",
        "name = 'a'\n" * 2,
        "[[variants]]\n" * 5_000,
        "variants = [1, [2, {}]]",
        '"\\u0000" = 1',
    ],
)
def test_hostile_patch_files_are_faulty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "good.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FaultyFile):
        load_patch(path)


def test_a_patch_file_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "good.toml").mkdir()
    with pytest.raises(FaultyFile):
        load_patch(tmp_path / "good.toml")


def test_scopes_of_a_huge_file_are_not_looked_for() -> None:
    with pytest.raises(ScopeFault, match="bytes only"):
        find_scope("a.py", HUGE, "f")
    assert scopes_around("a.py", HUGE, 5, 6) == []

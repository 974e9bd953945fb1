"""Where the text of an edit has gone to: which scopes and files are places for it, and in which
order."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pipeline.patching import places
from pipeline.patching.model import Edit
from pipeline.patching.places import Place, file_likeness, find_places, nearness

A, B, C = "pkg/a.py", "pkg/b.py", "pkg/c.py"
PLAN = """def plan(device):
    first = prepare(device)
    second = torch.empty(first)
    third = finish(second)
    return third
"""
WITHIN = Edit("e.w", A, "torch.empty(first)", "torch.full(first, -1)", "plan")
FREE = Edit("e.f", A, "torch.empty(first)", "torch.full(first, -1)", None)


def found(
    edit: Edit | tuple[Edit, ...],
    origin: str | None,
    files: Mapping[str, str],
    beside: tuple[str, ...] = (),
) -> list[Place]:
    """The places of an edit, the best first; of several edits of a patch, those of the last."""
    edits = edit if isinstance(edit, tuple) else (edit,)
    data = {path: text.encode() for path, text in files.items()}
    old = origin.encode() if origin is not None else None
    by_key = {("p", one.id): one for one in edits}
    found = find_places(by_key, dict.fromkeys(by_key, old), beside, data, data.get)
    return found["p", edits[-1].id]


def numbered(count: int, anchor: int) -> list[str]:
    """Lines that differ, and one that is the anchor."""
    return [f"line_{n}" if n != anchor else WITHIN.find for n in range(count)]


# --- what is a place ---


def test_a_scope_that_moved_with_its_anchor() -> None:
    assert found(WITHIN, PLAN, {A: "x = 1\n", B: "import torch\n" + PLAN}) == [
        Place(B, "plan", True, True, 1.0, 0)
    ]


def test_a_namesake_without_the_anchor_is_as_like_as_its_lines() -> None:
    changed = PLAN.replace("second = torch.empty(first)", "second = made(first)")
    assert found(WITHIN, PLAN, {B: changed}) == [Place(B, "plan", False, True, 0.8, 0)]


def test_a_namesake_is_compared_by_its_scope_and_a_renamed_one_by_what_is_around() -> None:
    changed = PLAN.replace("first = prepare(device)", "first = prepared(device)")
    assert found(WITHIN, PLAN, {B: changed}) == [Place(B, "plan", True, True, 0.8, 0)]
    renamed = changed.replace("def plan", "def planned")
    # around the anchor: two lines, and half of its own, before it; two behind it
    assert found(WITHIN, PLAN, {B: renamed}) == [Place(B, "planned", True, False, 0.6, 0)]


@pytest.mark.parametrize("find", ["def plan(device):", "third\n"])
def test_an_anchor_at_either_end_of_its_scope_is_in_it(find: str) -> None:
    edit = Edit("e", A, find, "x", "plan")
    files = {B: PLAN.replace("= finish(second)", "= 3")}
    assert [place.holds for place in found(edit, PLAN, files)] == [True]


@pytest.mark.parametrize("before", ["second", "x"])
def test_an_anchor_before_the_scope_is_not_in_it(before: str) -> None:
    edit = Edit("e", A, "second\n", "third\n", "plan")
    files = {B: f"{before}\ndef plan(device):\n    first = 0\n    return second + 1\n"}
    (place, *others) = found(edit, None, files)
    assert (place.within, place.holds) == ((None, True) if before == "second" else ("plan", False))
    assert [other.within for other in others] == ["plan"] * len(others)


def test_an_anchor_at_the_first_byte_of_a_file() -> None:
    files = {B: "torch.empty(first)\nx = 1\n"}
    assert found(WITHIN, None, files) == [Place(B, None, True, False, 0.0, 0)]
    edit = Edit("e", A, "def plan", "def planned", None)
    assert found(edit, PLAN, {B: PLAN}) == [Place(B, None, True, True, 1.0, 0)]


def test_an_anchor_that_stands_elsewhere_by_chance_hides_none_behind_it() -> None:
    chance = "def other():\n    a = 1\n    b = torch.empty(first)\n    return b\n\n\n"
    far = "x = 1\n" * 20
    assert found(WITHIN, PLAN, {B: chance + far + PLAN.replace("def plan", "def planned")}) == [
        Place(B, "planned", True, False, 0.8, 0)
    ]


def test_an_anchor_with_nothing_around_it_is_there_by_chance() -> None:
    edit = Edit("e", A, "torch.empty(first)\n", "x", None)
    within = Edit("e", A, "def plan(): torch.empty(first)\n", "x", "plan")
    assert found(edit, "torch.empty(first)\n", {A: "x\n" * 9, B: "\n" + PLAN}) == [
        Place(B, None, True, False, 0.0, 0)
    ]
    assert found(within, within.find, {B: "if 1:\n    " + within.find + "    x = 1\n"}) != []
    moved = "class C:\n    " + within.find + "    def other(): pass\n"
    assert found(within, within.find, {B: moved}) == []


@pytest.mark.parametrize("origin", ["x = 1\n", PLAN.replace("torch.empty", "torch.zeros")])
def test_the_old_release_may_lack_the_scope_or_the_anchor(origin: str) -> None:
    """As where it is not the release that the edit was written for: nothing to compare with."""
    renamed = PLAN.replace("def plan", "def planned")
    assert found(WITHIN, origin, {B: renamed}) == [Place(B, "planned", True, False, 0.0, 0)]
    likeness = 0.8 if "plan" in origin else 0.0
    assert found(WITHIN, origin, {B: PLAN}) == [Place(B, "plan", True, True, likeness, 0)]


def test_files_of_another_kind_are_no_places() -> None:
    files = {"pkg/a.cu": PLAN, B: PLAN, "pkg/c.txt": PLAN}
    assert [place.file for place in found(WITHIN, PLAN, files)] == [B]


def test_a_class_and_its_method_are_looked_for_by_both_names() -> None:
    edit = Edit("e", A, "major == 9", "major == 12", "Backend.supports")
    held = "class Backend:\n    def supports(self):\n        return {}\n"
    files = {B: held.format(0), C: held.format(0).replace("Backend", "Other")}
    assert found(edit, held.format("major == 9"), files) == [
        Place(B, "Backend.supports", False, True, 0.5, 0)
    ]


def test_a_scope_of_c_that_moved_without_its_anchor() -> None:
    edit = Edit("e", "csrc/a.cu", "x = 1;", "x = 2;", "ns::run")
    old = "namespace ns {\nvoid run() {\n  x = 1;\n}\n}\n"
    (place,) = found(edit, old, {"csrc/b.cu": old.replace("x = 1", "y = 1")})
    assert (place.file, place.within, place.holds, place.named) == (
        "csrc/b.cu", "ns::run", False, True,
    )  # fmt: skip


def test_a_scope_of_c_is_told_by_its_name_without_template_arguments() -> None:
    edit = Edit("e", "csrc/a.cu", "x = 1;", "x = 2;", "S<3>::f")
    old = "template <> struct S<3> {\n  void f() {\n    x = 1;\n  }\n};\n"
    (place,) = found(edit, old, {"csrc/b.cu": old.replace("x = 1", "y = 1")})
    assert (place.within, place.holds, place.named) == ("S<3>::f", False, True)


# --- which are looked at, and in which order ---


def test_files_that_mention_the_name_do_not_crowd_out_one_that_defines_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "_LOOKED_AT", 1)
    files = {B: "from pkg.c import plan, device\n", C: PLAN.replace("empty", "zeros")}
    assert [place.file for place in found(WITHIN, PLAN, files)] == [C]


def test_the_files_nearest_to_the_patches_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_LOOKED_AT", 1)
    files = {"pkg/amd/x.py": PLAN, "pkg/nvidia/x.py": PLAN, "pkg/xpu/x.py": PLAN}
    (place,) = found(WITHIN, PLAN, files, ("pkg/nvidia/ops.py",))
    assert (place.file, place.near) == ("pkg/nvidia/x.py", 2)


def test_of_two_namesakes_the_nearer_one_comes_first_though_it_is_less_alike() -> None:
    files = {"pkg/amd/x.py": PLAN, "pkg/nvidia/x.py": PLAN.replace("finish", "finished")}
    got = found(WITHIN, PLAN, files, ("pkg/nvidia/ops.py",))
    assert [(place.file, place.likeness) for place in got] == [
        ("pkg/nvidia/x.py", 0.8),
        ("pkg/amd/x.py", 1.0),
    ]


def test_of_two_renamed_scopes_the_one_more_alike_comes_first_though_it_is_farther() -> None:
    renamed = PLAN.replace("def plan", "def planned")
    files = {"pkg/amd/x.py": renamed, "pkg/nvidia/x.py": renamed.replace("finish", "finished")}
    got = found(WITHIN, PLAN, files, ("pkg/nvidia/ops.py",))
    assert [(place.file, place.likeness) for place in got] == [
        ("pkg/amd/x.py", 0.8),
        ("pkg/nvidia/x.py", 0.6),
    ]


# --- edits without a scope ---


def test_a_file_that_is_still_there_by_and_large_is_the_only_place() -> None:
    five = "a\nb\nc\nd\ntorch.empty(first)\n"
    assert found(FREE, five, {A: "a\nb\nc\nx\n", B: five}) == []
    assert [place.file for place in found(FREE, five, {A: "a\nb\nx\ny\n", B: five})] == [B]


@pytest.mark.parametrize(("kept", "named"), [(3, True), (2, False)])
def test_a_file_is_what_another_became_from_three_tenths_of_its_lines(
    kept: int, named: bool
) -> None:
    ten = numbered(10, 0)
    text = "\n".join([*ten[:kept], *(f"new_{n}" for n in range(9))])
    (place,) = found(FREE, "\n".join(ten), {B: text})
    assert place == Place(B, None, True, named, kept / 10, 0)


def test_without_the_old_release_a_file_is_no_heir_by_its_text() -> None:
    assert found(FREE, None, {B: PLAN}) == [Place(B, None, True, False, 0.0, 0)]


def test_a_file_without_the_anchor_is_no_place_for_an_edit_of_a_file() -> None:
    assert found(FREE, PLAN, {B: PLAN.replace("empty", "zeros")}) == []


def test_an_edit_of_a_file_goes_where_a_scope_of_its_file_went() -> None:
    head = "import torch\n"
    top = Edit("e.t", A, "import torch", "import torch.cuda", None)
    # also where its own anchor is not, and where it is elsewhere
    assert found((WITHIN, top), head + PLAN, {B: PLAN, C: head}) == [
        Place(B, None, False, True, 5 / 6, 0)
    ]


def test_an_edit_of_a_file_does_not_follow_an_anchor_that_stands_in_another_scope() -> None:
    top = Edit("e.t", A, "import torch", "import torch.cuda", None)
    files = {A: "import torch\n", B: PLAN.replace("def plan", "def planned")}
    assert found((WITHIN, top), None, files) == []
    assert found((WITHIN, top), None, {A: "import torch\n"}) == []


# --- likeness ---


@pytest.mark.parametrize(
    ("one", "other", "likeness"),
    [
        ("a\nb\nc\nd\n", "a\n\n  b\nx\ny\n", 0.5),
        ("a\na\nb\n", "b\nb\n", 0.5),
        ("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2", 0.3),
        ("0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1", 0.0),  # too short to be it
        ("", "a\n", 0.0),
        ("\n\n", "a\n", 0.0),
    ],
)
def test_likeness_of_files_is_a_share_of_different_lines(
    one: str, other: str, likeness: float
) -> None:
    assert file_likeness(one.encode(), other.encode()) == likeness


@pytest.mark.parametrize(
    ("changed", "likeness"), [(5, 1.0), (6, 0.95), (14, 0.95), (16, 0.95), (25, 0.95), (26, 1.0)]
)
def test_ten_lines_before_and_behind_say_where_an_anchor_stands(
    changed: int, likeness: float
) -> None:
    old = numbered(31, 15)
    new = [line if n != changed else "new" for n, line in enumerate(old)]
    edit = Edit("e", A, WITHIN.find, "x", "C")
    body, moved = ("\n".join(["class {}:", *(lines)]) for lines in (old, new))
    text = body.format("C").replace("\n", "\n    ") + "\n"
    other = "x = 1\n" + moved.format("D").replace("\n", "\n    ") + "\n"
    (place,) = found(edit, text, {B: other})
    # of the ten before, one is the anchor's own, and blank
    assert (place.within, round(place.likeness, 2)) == ("D", likeness)


@pytest.mark.parametrize(("size", "counts"), [(4_000, True), (4_001, False)])
@pytest.mark.parametrize("before", [True, False])
def test_what_is_farther_away_than_four_thousand_bytes_does_not_count(
    size: int, counts: bool, before: bool
) -> None:
    """Two long lines that differ in their byte that is farthest from the anchor."""
    edit = Edit("e", A, "torch.empty(first)\n", "x", "plan")
    if before:
        text = "def plan():\n#?" + "#" * (size - 3) + f"\n {edit.find}"
    else:
        text = f"def plan():\n {edit.find}" + "#" * (size - 1) + "?\n"
    other = text.replace("plan", "other").replace("?", "!")
    assert (found(edit, text, {B: other}) == []) is counts


def test_a_first_line_counts_in_full() -> None:
    edit = Edit("e", A, "x = 1", "x = 2", "f")
    old = "def f(): # one\n x = 1\n"
    moved = "class C:\n def f(): # one\n  x = 1\n"
    (place,) = found(edit, old, {B: moved})
    assert place == Place(B, "C.f", True, False, 1.0, 0)


@pytest.mark.parametrize(
    ("path", "folders", "near"),
    [
        ("a/b/c.py", ["a/b", "a"], 2),
        ("a/b/c.py", ["a/x/c", "x"], 1),
        ("a/b/c.py", ["b/b"], 0),
        ("c.py", ["a"], 0),
        ("a/b/c.py", [], 0),
    ],
)
def test_nearness_is_a_number_of_folders(path: str, folders: list[str], near: int) -> None:
    assert nearness(path, folders) == near

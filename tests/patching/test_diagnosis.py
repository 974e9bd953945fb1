"""What is said of an edit that was not found, where the release says more than one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pipeline.patching.model import Edit
from tests.patching.test_reports_in_full import FREE, LONG, A, B, head, plan, told
from tests.patching.test_survey import OLD, PLAN, ask, patch

C = "pkg/c.py"
ROWS = replace(PLAN, find="second = torch.empty(first)", replace="second = torch.full(first, -1)")
ELSEWHERE = "read it is in another place: see that this is the one that runs"
WRAPPED = "second = torch.empty(\n            first)"


def said(edit: Edit, files: str | Mapping[str, str], origin: str | None = OLD) -> list[str]:
    """The report about an edit of `pkg/a.py`, which was `origin` before, as lines."""
    files = {A: files} if isinstance(files, str) else files
    old = {A: origin} if origin is not None else None
    (report,) = ask(patch(edit), files, origin=old).edits
    return told(report)


def test_a_file_is_left_for_one_that_is_as_like_its_old_self() -> None:
    """Half of its lines went there, with the anchor; here it stands among the others, changed."""
    kept = [f"kept_{n} = {n}" for n in range(9)]
    here = [*kept[:5], "x = torch.empty(first, device)", "n1", "n2", "n3", "n4"]
    there = ["x = torch.empty(first)", *kept[5:], "m1", "m2", "m3", "m4", "m5"]
    old = "\n".join([*kept, "x = torch.empty(first)"])
    files = {A: "\n".join(here), B: "\n".join(there)}
    assert said(FREE, files, old)[:2] == [
        "moved: the text of its file is in pkg/sub/b.py now",
        "pkg/sub/b.py:1: x = torch.empty(first)",
    ]


@pytest.mark.parametrize(("names", "more"), [("bcd", ""), ("bcdef", " and 2 more")])
def test_three_of_the_files_that_hold_the_anchor_are_named(names: str, more: str) -> None:
    files = {f"pkg/{n}.py": f"def {n}(): return torch.empty(first)\n" for n in names}
    assert said(PLAN, files, None) == [
        "gone: plan is not in the distribution, and there is no pkg/a.py; nothing shows that its "
        f"anchor in pkg/b.py, pkg/c.py, pkg/d.py{more} is the one"
    ]


def test_a_file_that_is_gone_with_its_text() -> None:
    assert said(FREE, {B: "x = 1\n"}) == [
        "gone: its anchor is not anywhere in the distribution, and there is no pkg/a.py"
    ]


def test_drift_is_found_though_the_old_release_at_hand_lacks_the_anchor() -> None:
    new = OLD.replace("second =", "rows =")
    assert said(ROWS, new, OLD.replace("torch.empty(first)", "made()"))[:3] == [
        "drifted: the anchor stands 0 times, expected 1",
        "pkg/a.py:14:     rows = torch.empty(first)",
        "edit pkg/a.py plan 'rows = torch.empty(first)' -> 'rows = torch.full(first, -1)'",
    ]


def test_a_replacement_keeps_its_depth_where_the_old_one_is_not_known() -> None:
    assert said(LONG, {A: head, B: plan}, OLD.replace("torch.empty(first)", "made()"))[2:] == [
        f"edit pkg/sub/b.py plan {LONG.find!r} -> {LONG.replace!r}",
        "change file pkg/a.py -> pkg/sub/b.py",
        ELSEWHERE,
    ]


def test_an_anchor_that_stands_in_the_new_file_by_chance_too() -> None:
    chance = "def by_chance():\n    torch.empty(first)\n" + "x = 1\n" * 20
    files = {A: head, B: chance + plan.replace("def plan", "def planned")}
    assert said(PLAN, files)[:2] == [
        "moved: its anchor is in planned of pkg/sub/b.py now",
        "pkg/sub/b.py:25:     second = torch.empty(first)",
    ]


def test_a_namesake_without_the_anchor_is_shown_by_its_first_line() -> None:
    files = {A: head, B: "import torch\n\n\n" + plan.replace("torch.empty(first)", "made()")}
    assert said(PLAN, files) == [
        "moved: plan is in pkg/sub/b.py now, and its anchor is not in it; write it by hand",
        "pkg/sub/b.py:4: def plan(device):",
    ]


def test_it_is_said_that_another_scope_holds_the_same_anchor() -> None:
    renamed = plan.replace("def plan", "def planned")
    assert said(PLAN, {A: head, B: renamed, C: renamed})[-2:] == [
        ELSEWHERE,
        "read the same anchor stands in pkg/sub/b.py too",
    ]


def test_it_is_said_that_there_is_another_namesake_without_the_anchor() -> None:
    changed = plan.replace("torch.empty(first)", "made(first)")
    assert said(PLAN, {A: head, B: changed, C: changed}) == [
        "moved: plan is in pkg/c.py now (and in pkg/sub/b.py), and its anchor is not in it; "
        "write it by hand",
        "pkg/c.py:1: def plan(device):",
    ]


def test_moved_and_drifted() -> None:
    assert said(ROWS, {A: head, B: plan.replace("second =", "rows =")}) == [
        "moved: plan is in pkg/sub/b.py now, and its anchor is not in it",
        "pkg/sub/b.py:3:     rows = torch.empty(first)",
        "edit pkg/sub/b.py plan 'rows = torch.empty(first)' -> 'rows = torch.full(first, -1)'",
        "change file pkg/a.py -> pkg/sub/b.py",
        "change anchor 'second = torch.empty(first)' -> 'rows = torch.empty(first)'",
        "change replacement 'second = torch.full(first, -1)' -> 'rows = torch.full(first, -1)'",
        ELSEWHERE,
        "read its anchor is a new one: see that the text around it still means the same",
    ]


def test_how_much_deeper_is_asked_of_the_anchors_first_line() -> None:
    edit = replace(ROWS, find=WRAPPED, replace="second = 0\n    check(second)")
    method = "class P:\n" + "".join(f"    {line}\n" for line in plan.splitlines())
    old, new = (text.replace(ROWS.find, WRAPPED) for text in (OLD, method))
    report = said(edit, {A: head, B: new}, old)
    deeper = "second = 0\n        check(second)"
    assert f"edit {B} P.plan {WRAPPED!r} -> {deeper!r}" in report
    assert "change replacement indented by +4" in report


def test_lines_that_hold_the_anchor_outside_its_scope_are_shown() -> None:
    """From the first line of the file to its last."""
    changed = plan.replace("second = torch.empty(first)", "pass").replace("(second)", "()")
    text = "torch.empty(first)\n" + "x = 1\n" * 15 + changed + "\n" * 15 + "torch.empty(first)"
    assert said(PLAN, text) == [
        "gone: nothing in plan is like its anchor "
        "(it stands outside the scope, at lines 1, 37 (no scope))",
        "pkg/a.py:1: torch.empty(first)",
        "pkg/a.py:37: torch.empty(first)",
    ]


@pytest.mark.parametrize(
    ("find", "shown"),
    [
        ("first = prepare(\n)", ["pkg/sub/b.py:2:     first = prepare(", "pkg/sub/b.py:3: )"]),
        (
            "first = prepare(\n)\n    second = torch.empty(first)\n    third = finish(second)",
            [
                "pkg/sub/b.py:2:     first = prepare(",
                "pkg/sub/b.py:3: )",
                "pkg/sub/b.py:4:     second = torch.empty(first)",
            ],
        ),
    ],
)
def test_an_anchor_is_shown_up_to_its_third_line(find: str, shown: list[str]) -> None:
    old, new = (text.replace("prepare(device)", "prepare(\n)") for text in (OLD, plan))
    report = said(replace(PLAN, find=find, replace="first = 0"), {A: head, B: new}, old)
    assert [line for line in report if line.startswith("pkg/")] == shown

"""Reports in full: what is said of an edit whose release moved, and what is proposed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from pipeline.patching.model import Edit
from pipeline.patching.verdicts import EditReport
from tests.patching.test_survey import OLD, PLAN, SUPPORTS, ask, patch

A, B = "pkg/a.py", "pkg/sub/b.py"
plan = OLD[OLD.index("def plan") :]
head = OLD[: OLD.index("def plan")]
method = "class P:\n" + "".join(f"    {line}\n" for line in plan.splitlines())
flat = "device = 1\n" + "".join(f"{line[4:]}\n" for line in plan.splitlines()[1:-1])
FREE = Edit("e.f", A, "torch.empty(first)", "torch.full(first, -1)", None)
TWICE = Edit("e.t", A, "third", "fourth", "plan", count=2)
LONG = Edit(
    "e.m",
    A,
    "second = torch.empty(first)",
    "second = torch.full(first, -1)\n    check(second)",
    "plan",
)


@dataclass(frozen=True)
class Moved:
    """A release, what `pkg/a.py` was before (None: not at hand), and the report."""

    name: str
    edit: Edit
    files: str | Mapping[str, str]
    report: list[str]
    origin: str | None = OLD


def told(report: EditReport) -> list[str]:
    """A report as lines: the verdict, the places, the edit that is proposed, and why to read it."""
    lines = [f"{report.verdict}: {report.message}"]
    lines += [f"{one.file}:{one.number}: {one.text}" for one in report.lines]
    if report.proposal:
        edit = report.proposal.edit
        lines.append(f"edit {edit.file} {edit.within} {edit.find!r} -> {edit.replace!r}")
        lines += [f"change {one}" for one in report.proposal.changes]
        lines += [f"read {one}" for one in report.proposal.read]
    return lines


RELEASES = [
    Moved(
        "reworded",
        SUPPORTS,
        OLD.replace("return major == 9", "return cls.major == 9 and ok"),
        [
            "applies: ",
            "pkg/a.py:8:             return cls.major == 9 and ok",
            "edit pkg/a.py Backend.supports 'major == 9' -> 'major in (9, 12)'",
            "read Backend.supports has changed: 1 of its 7 lines are gone, 1 are new",
        ],
    ),
    Moved(
        "reworded3",
        PLAN,
        OLD.replace("second = torch.empty(first)", "other = torch.empty( first )"),
        [
            "drifted: the anchor stands 0 times, expected 1; what upstream changed there "
            "touches what the edit changes: write it by hand",
            "pkg/a.py:14:     other = torch.empty( first )",
        ],
    ),
    Moved(
        "touches no origin",
        SUPPORTS,
        OLD.replace("major == 9", "major in (9, 10)"),
        [
            "drifted: the anchor stands 0 times, expected 1; what upstream changed there "
            "touches what the edit changes: write it by hand",
            "pkg/a.py:6:         major = capability.major",
            "pkg/a.py:7:         if cls.known(major):",
            "pkg/a.py:8:             return major in (9, 10)",
        ],
        origin=None,
    ),
    Moved(
        "moved file",
        PLAN,
        {A: head, B: "import torch\n\n\n" + plan},
        [
            "moved: plan is in pkg/sub/b.py now",
            "pkg/sub/b.py:6:     second = torch.empty(first)",
            "edit pkg/sub/b.py plan 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "change file pkg/a.py -> pkg/sub/b.py",
            "read it is in another place: see that this is the one that runs",
        ],
    ),
    Moved(
        "moved file, twice",
        PLAN,
        {
            A: head,
            B: "import torch\n\n\n" + plan,
            "pkg/sub/c.py": plan,
            "pkg/sub/d.py": plan,
            "pkg/sub/e.py": plan,
            "pkg/sub/f.py": plan,
        },
        [
            "moved: plan is in pkg/sub/b.py now",
            "pkg/sub/b.py:6:     second = torch.empty(first)",
            "edit pkg/sub/b.py plan 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "change file pkg/a.py -> pkg/sub/b.py",
            "read it is in another place: see that this is the one that runs",
            "read the same name stands in pkg/sub/c.py, pkg/sub/d.py, pkg/sub/e.py too",
        ],
    ),
    Moved(
        "moved scope same file",
        PLAN,
        head + method,
        [
            "moved: its anchor is in P.plan of the same file now",
            "pkg/a.py:15:         second = torch.empty(first)",
            "edit pkg/a.py P.plan 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "change scope plan -> P.plan",
            "read it is in another place: see that this is the one that runs",
        ],
    ),
    Moved(
        "deeper2",
        LONG,
        head + method,
        [
            "moved: its anchor is in P.plan of the same file now",
            "pkg/a.py:15:         second = torch.empty(first)",
            "edit pkg/a.py P.plan 'second = torch.empty(first)' -> 'second = "
            "torch.full(first, -1)\\n        check(second)'",
            "change scope plan -> P.plan",
            "change replacement indented by +4",
            "read it is in another place: see that this is the one that runs",
        ],
    ),
    Moved(
        "renamed scope",
        PLAN,
        OLD.replace("def plan(", "def planned("),
        [
            "moved: its anchor is in planned of the same file now",
            "pkg/a.py:14:     second = torch.empty(first)",
            "edit pkg/a.py planned 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "change scope plan -> planned",
            "read it is in another place: see that this is the one that runs",
        ],
    ),
    Moved(
        "namesake without anchor",
        PLAN,
        {A: head, B: plan.replace("second = torch.empty(first)", "second = made(first)")},
        [
            "moved: plan is in pkg/sub/b.py now, and its anchor is not in it; write it by hand",
            "pkg/sub/b.py:1: def plan(device):",
        ],
    ),
    Moved(
        "namesake drift",
        PLAN,
        {A: head, B: plan.replace("torch.empty(first)", "torch.empty(first, device)")},
        [
            "moved: plan is in pkg/sub/b.py now, and its anchor is not in it; write it by hand",
            "pkg/sub/b.py:3:     second = torch.empty(first, device)",
        ],
    ),
    Moved(
        "to module level",
        PLAN,
        {A: head, B: flat},
        [
            "moved: its anchor is in module level of pkg/sub/b.py now; write it by hand",
            "pkg/sub/b.py:1: device = 1",
        ],
    ),
    Moved(
        "free moved",
        FREE,
        {B: OLD},
        [
            "moved: the text of its file is in pkg/sub/b.py now",
            "pkg/sub/b.py:14:     second = torch.empty(first)",
            "edit pkg/sub/b.py None 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "change file pkg/a.py -> pkg/sub/b.py",
            "read it is in another place: see that this is the one that runs",
        ],
    ),
    Moved(
        "free moved, file there",
        FREE,
        {A: head, B: OLD},
        [
            "gone: nothing in the file is like its anchor",
        ],
    ),
    Moved(
        "free moved, other file unlike",
        FREE,
        {A: head, B: "x = torch.empty(first)\n"},
        [
            "gone: nothing in the file is like its anchor",
        ],
    ),
    Moved(
        "free, deleted",
        FREE,
        OLD.replace("torch.empty(first)", "made()"),
        [
            "gone: nothing in the file is like its anchor",
        ],
    ),
    Moved(
        "free gone",
        FREE,
        {A: "x = 1\n"},
        [
            "gone: nothing in the file is like its anchor",
        ],
    ),
    Moved(
        "in scope nothing alike",
        PLAN,
        head + "def plan(device):\n    return None\n",
        [
            "gone: nothing in plan is like its anchor",
        ],
    ),
    Moved(
        "nothing, file there",
        PLAN,
        {A: "x = 1\n"},
        [
            "gone: neither plan nor its anchor is anywhere in the distribution",
        ],
    ),
    Moved(
        "chance no file",
        PLAN,
        {f"pkg/c{i}.py": "torch.empty(first)\n" for i in range(2)},
        [
            "gone: neither plan nor its anchor is anywhere in the distribution, and there is "
            "no pkg/a.py",
        ],
    ),
    Moved(
        "ambiguous anchor",
        PLAN,
        OLD.replace("third = finish(second)", "third = torch.empty(first)"),
        [
            "drifted: the anchor stands 2 times, expected 1",
            "pkg/a.py:14:     second = torch.empty(first)",
            "edit pkg/a.py plan 'second = torch.empty(first)' -> 'second = torch.full(first, -1)'",
            "change anchor 'torch.empty(first)' -> 'second = torch.empty(first)'",
            "change replacement 'torch.full(first, -1)' -> 'second = torch.full(first, -1)'",
            "read its anchor is a new one: see that the text around it still means the same",
        ],
    ),
    Moved(
        "ambiguous anchor 4",
        PLAN,
        OLD.replace("third = finish(second)", "third = torch.empty(first)\n    " * 4),
        [
            "drifted: the anchor stands 5 times, expected 1",
            "pkg/a.py:14:     second = torch.empty(first)",
            "edit pkg/a.py plan 'second = torch.empty(first)' -> 'second = torch.full(first, -1)'",
            "change anchor 'torch.empty(first)' -> 'second = torch.empty(first)'",
            "change replacement 'torch.full(first, -1)' -> 'second = torch.full(first, -1)'",
            "read its anchor is a new one: see that the text around it still means the same",
        ],
    ),
    Moved(
        "ambiguous scope",
        PLAN,
        OLD + "\n\n" + plan,
        [
            "drifted: 2 definitions are called plan: lines 12, 19",
            "pkg/a.py:12: def plan(device):",
            "pkg/a.py:19: def plan(device):",
        ],
    ),
    Moved(
        "alone no origin",
        PLAN,
        {A: head, B: "def other():\n    second = torch.empty(first)\n"},
        [
            "moved: its anchor is in other of pkg/sub/b.py now",
            "pkg/sub/b.py:2:     second = torch.empty(first)",
            "edit pkg/sub/b.py other 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "change file pkg/a.py -> pkg/sub/b.py",
            "change scope plan -> other",
            "read it is in another place: see that this is the one that runs",
        ],
        origin=None,
    ),
    Moved(
        "two no origin",
        PLAN,
        {
            A: head,
            B: "def other():\n    second = torch.empty(first)\n",
            "pkg/c.py": "def third():\n    x = torch.empty(first)\n",
        },
        [
            "gone: plan is not in the distribution; nothing shows that its anchor in "
            "pkg/c.py, pkg/sub/b.py is the one",
        ],
        origin=None,
    ),
    Moved(
        "count 2",
        TWICE,
        OLD.replace("return third", "return 3"),
        [
            "drifted: the anchor stands once, expected 2",
            "pkg/a.py:15:     third = finish(second)",
        ],
    ),
    Moved(
        "free ok changed",
        FREE,
        OLD.replace("# which GPUs there are", ""),
        [
            "applies: ",
            "pkg/a.py:14:     second = torch.empty(first)",
            "edit pkg/a.py None 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "read it names no scope, and its file has changed",
        ],
    ),
    Moved(
        "free ok same",
        FREE,
        OLD,
        [
            "applies: ",
            "pkg/a.py:14:     second = torch.empty(first)",
            "edit pkg/a.py None 'torch.empty(first)' -> 'torch.full(first, -1)'",
        ],
    ),
    Moved(
        "scope not in origin",
        PLAN,
        OLD,
        [
            "applies: ",
            "pkg/a.py:14:     second = torch.empty(first)",
            "edit pkg/a.py plan 'torch.empty(first)' -> 'torch.full(first, -1)'",
            "read its scope is not in the release that it was written for",
        ],
        origin=head,
    ),
    Moved(
        "already",
        PLAN,
        OLD.replace("torch.empty(first)", "torch.full(first, -1)"),
        [
            "already-applied: ",
            "pkg/a.py:14:     second = torch.full(first, -1)",
            "edit pkg/a.py plan 'torch.empty(first)' -> 'torch.full(first, -1)'",
        ],
    ),
]


@pytest.mark.parametrize("moved", RELEASES, ids=lambda moved: moved.name)
def test_what_is_said_of_an_edit_whose_release_moved(moved: Moved) -> None:
    files = {A: moved.files} if isinstance(moved.files, str) else moved.files
    origin = {A: moved.origin} if moved.origin is not None else None
    (report,) = ask(patch(moved.edit), files, origin=origin).edits
    assert told(report) == moved.report

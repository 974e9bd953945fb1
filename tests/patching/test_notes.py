"""Notes about texts change no answer, and are of no other text."""

from collections.abc import Mapping
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.patching import workspace
from pipeline.patching.evaluate import evaluate
from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant
from pipeline.patching.notes import Notes
from pipeline.patching.outcomes import Evaluation, Outcome

BODY = b"""def f():
    x = 1
    return x


def g():
    x = 1
    return x
"""
CHANGES = {
    "fits": Edit("e", "a.py", "x = 1", "x = 2", "g", 1),
    "no anchor": Edit("e", "a.py", "x = 3", "x = 2", "g", 1),
    "no scope": Edit("e", "a.py", "x = 1", "x = 2", "h", 1),
    "no syntax": Edit("e", "a.py", "x = 1", "x = = 2", "g", 1),
    "scope renamed": Edit("e", "a.py", "def g():", "def h():", "g", 1),
}


def ask(change: str, body: bytes = BODY, notes: Notes | None = None) -> Evaluation:
    upstream = (UpstreamTest("a.py", "x = 9", "f"),)
    variant = Variant(Requirement("vllm==1.*"), (CHANGES[change],), upstream)
    patch = Patch("p", "t", "w", "", "vllm", (variant,))
    tree: Mapping[str, bytes] = {"a.py": body}
    return evaluate([patch], tree.get, {"vllm": Version("1.0")}, "3.11", None, notes)


@pytest.mark.parametrize("change", CHANGES)
def test_notes_change_no_answer(change: str) -> None:
    first = Notes()
    assert ask(change, notes=first) == ask(change)
    again = Notes(first.used)
    assert ask(change, notes=again) == ask(change)
    assert again.used == first.used


def test_what_is_noted_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Notes()
    expected = ask("fits", notes=first)
    asked: list[Any] = []
    monkeypatch.setattr(workspace, "find_scope", lambda *words: asked.append(words))
    monkeypatch.setattr(
        "pipeline.patching.evaluate.syntax_faults", lambda files, python: asked.extend(files) or {}
    )
    assert ask("fits", notes=Notes(first.used)) == expected and asked == []


def test_another_text_is_looked_at_anew() -> None:
    first = Notes()
    ask("fits", notes=first)
    moved = b"y = 0\n" + BODY
    assert ask("fits", moved, Notes(first.used)) == ask("fits", moved)


def test_a_fault_of_syntax_is_never_noted() -> None:
    notes = Notes()
    found = ask("no syntax", notes=notes)
    assert found.patches[0].edits[0].outcome is Outcome.WOULD_NOT_PARSE
    assert not any("parses" in question for question in notes.used)


def test_what_parses_for_one_python_is_asked_again_for_another() -> None:
    edit = Edit("e", "a.py", "x = 1", "type X = int", "g", 1)
    patch = Patch("p", "t", "w", "", "vllm", (Variant(Requirement("vllm==1.*"), (edit,)),))
    notes = Notes()
    for python, outcome in (("3.12", Outcome.APPLIED), ("3.11", Outcome.WOULD_NOT_PARSE)):
        tree, versions = {"a.py": BODY}, {"vllm": Version("1.0")}
        found = evaluate([patch], tree.get, versions, python, None, notes)
        assert found.patches[0].edits[0].outcome is outcome

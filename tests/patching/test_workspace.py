"""Edits of several patches in one file: nobody's edit rests on bytes that another one wrote."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from pipeline.patching.model import Edit
from pipeline.patching.outcomes import Outcome
from pipeline.patching.workspace import Workspace

FRESH = 0x100  # letters that no text holds twice: every anchor is unique


@given(st.data())
def test_whose_bytes_are_whose(data: st.DataObject) -> None:
    """Beside a model that keeps an owner for each letter of the file."""
    numbers = count(FRESH)
    letters = [chr(next(numbers)) for _ in range(data.draw(st.integers(2, 12)))]
    owners: list[str] = [""] * len(letters)
    space = Workspace({"a.txt": "".join(letters).encode()}.get)
    for number in range(data.draw(st.integers(1, 6))):
        start = data.draw(st.integers(0, len(letters) - 1))
        end = data.draw(st.integers(start + 1, len(letters)))
        there = "".join(letters[start:end])
        fresh = "".join(chr(next(numbers)) for _ in range(data.draw(st.integers(1, 4))))
        made = data.draw(st.booleans())  # is the text there what the edit makes, or what it finds
        edit = Edit(f"e{number}", "a.txt", *((fresh, there) if made else (there, fresh)))
        result = space.apply("p", edit)
        others = set(owners[start:end]) - {""}
        if others:
            assert result.outcome is Outcome.CONFLICT
            assert result.message in {f"{one} has written this text" for one in others}
        elif made:
            assert result.outcome is Outcome.ALREADY_APPLIED
            owners[start:end] = [f"p e{number}"] * (end - start)
        else:
            assert result.outcome is Outcome.FITS
            letters[start:end] = fresh
            owners[start:end] = [f"p e{number}"] * len(fresh)
        assert space.current("a.txt") == "".join(letters).encode()


def test_every_occurrence_of_an_edit_is_its_own() -> None:
    space = Workspace({"a.txt": b"x1 x2 x3 y"}.get)
    assert space.apply("p", Edit("a", "a.txt", "x", "long", count=3)).outcome is Outcome.FITS
    assert space.current("a.txt") == b"long1 long2 long3 y"
    for number in (1, 2, 3):
        result = space.apply("q", Edit("b", "a.txt", f"g{number}", "z"))
        assert (result.outcome, result.message) == (Outcome.CONFLICT, "p a has written this text")
        beside = Edit(f"c{number}", "a.txt", f"{number} ", f"{number}, ")
        assert space.apply("q", beside).outcome is Outcome.FITS


def test_lines_and_hints_of_what_was_found() -> None:
    space = Workspace({"a.txt": b"one\ntwo\nnew\n"}.get)
    made = space.apply("p", Edit("a", "a.txt", "old", "new"))
    assert (made.outcome, made.lines, made.found) == (Outcome.ALREADY_APPLIED, (3,), 0)
    missing = space.apply("p", Edit("b", "a.txt", "qqqq", "zzzz"))
    assert (missing.outcome, missing.hints) == (Outcome.ANCHOR_MISSING, ())
    nowhere = space.apply("p", Edit("c", "b.txt", "x", "y"))
    assert (nowhere.outcome, nowhere.found, nowhere.lines) == (Outcome.TARGET_MISSING, 0, ())

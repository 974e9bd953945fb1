"""Where an anchor and its replacement stand in a scope, and what that means for the edit.

An edit is applied when its anchor stands exactly `count` times and its replacement not at all; it
is already applied when the replacement stands exactly `count` times and the anchor nowhere else.
Both are counted because a replacement often keeps its anchor, so that the anchor alone stands
there before and after. Anything in between is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pipeline.patching.outcomes import Outcome

Span = tuple[int, int]


@dataclass(frozen=True)
class Match:
    """What an edit meets in a scope: spans in the file of free anchors and of replacements."""

    outcome: Outcome
    anchors: tuple[Span, ...]
    replaced: tuple[Span, ...]
    message: str = ""


def match(data: bytes, scope: Span, find: bytes, replace: bytes, count: int) -> Match:
    """Decides about one edit in `data[scope]`. The outcome is FITS, ALREADY_APPLIED or a failure.

    Anchors that lie inside a replacement are part of it and do not count.
    """
    replaced = occurrences(data, scope, replace)
    anchors = tuple(
        (start, end)
        for start, end in occurrences(data, scope, find)
        if not any(first <= start and end <= last for first, last in replaced)
    )
    outcome, message = _decide(anchors, replaced, count)
    return Match(outcome, anchors, replaced, message)


def _decide(
    anchors: tuple[Span, ...], replaced: tuple[Span, ...], count: int
) -> tuple[Outcome, str]:
    found, done = len(anchors), len(replaced)
    if _overlap(anchors):
        return Outcome.ANCHOR_AMBIGUOUS, f"the anchor's {found} occurrences overlap"
    if found == 0 and done == 0:
        return Outcome.ANCHOR_MISSING, _stands("the anchor", found, count)
    if found == 0 and done == count:
        if _overlap(replaced):
            return Outcome.ANCHOR_AMBIGUOUS, f"the replacement's {done} occurrences overlap"
        return Outcome.ALREADY_APPLIED, ""
    if found == 0:
        return Outcome.ANCHOR_MISSING, (
            f"{_stands('the anchor', found, count)}, and the replacement {_times(done)}"
        )
    if found + done == count and done:
        return Outcome.PARTIALLY_APPLIED, f"{done} of {count} occurrences are replaced already"
    if found != count:
        return Outcome.ANCHOR_AMBIGUOUS, _stands("the anchor", found, count)
    if done:
        return Outcome.CONFLICT, (
            f"the replacement's text stands {_times(done)} already, so nobody could tell later"
            " whether the edit was made: make find and replace longer"
        )
    return Outcome.FITS, ""


def occurrences(data: bytes, scope: Span, text: bytes) -> tuple[Span, ...]:
    """Every place of `text` that lies wholly in the scope, also overlapping ones."""
    spans = []
    start = data.find(text, *scope)
    while start >= 0:
        spans.append((start, start + len(text)))
        start = data.find(text, start + 1, scope[1])
    return tuple(spans)


def _overlap(spans: tuple[Span, ...]) -> bool:
    return any(first[1] > second[0] for first, second in pairwise(spans))


def _stands(what: str, found: int, count: int) -> str:
    return f"{what} stands {_times(found)}, expected {count}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"

"""The shortest anchor that holds a change and stands once in a scope.

An anchor reaches from the change to both sides in whole words and signs. Three things bound it from
below: it must be unique, the edit must be provable afterwards (see `matching`), and it must be
recognisable: a lone `9` may well be unique in a function today, and says nothing about what it was.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from pipeline.patching.matching import Span
from pipeline.patching.tokens import tokens

VISIBLE = 12
"""An anchor has at least so many bytes that are no white space, if its surroundings have them."""

_BLANK = re.compile(rb"\s+")
_REACH = 6_000  # bytes to each side that are looked at


class _Window:
    """A change in a scope, and the question whether a text around it will do as an anchor."""

    def __init__(
        self, before: bytes, scope: Span, hole: Span, text: bytes, finals: Sequence[bytes]
    ) -> None:
        self.before, self.scope, self.hole, self.text = before, scope, hole, text
        after = before[scope[0] : hole[0]] + text + before[hole[1] : scope[1]]
        self.finals = (after, *finals)
        self.least = 0

    def visible(self, start: int, end: int) -> int:
        return len(_BLANK.sub(b"", self.before[start:end]))

    def suits(self, start: int, end: int) -> bool:
        """Whether `before[start:end]` will do. When it does, so does every longer text."""
        find = self.before[start:end]
        if not find or self.visible(start, end) < self.least:
            return False
        replace = self.before[start : self.hole[0]] + self.text + self.before[self.hole[1] : end]
        if replace in find or not _once(self.before, self.scope, find):
            return False
        if self.before.find(replace, *self.scope) >= 0:
            return False
        return all(_provable(final, find, replace) for final in self.finals)


def shortest_anchor(
    before: bytes,
    scope: Span,
    hole: Span,
    text: bytes,
    *,
    limits: Span | None = None,
    finals: Sequence[bytes] = (),
) -> Span | None:
    """The shortest span around `hole` that makes a good anchor, or None when there is none.

    `before[hole]` becomes `text`. The anchor stays in `limits` (the scope by default: outside of
    it other edits write). In each of `finals`, texts of the same scope with all edits made, the
    edit must be seen as applied.
    """
    low, high = limits or scope
    window = _Window(before, scope, hole, text, finals)
    lefts = _steps(hole[0], before[max(low, hole[0] - _REACH) : hole[0]], -1)
    rights = _steps(hole[1], before[hole[1] : min(high, hole[1] + _REACH)], 1)
    window.least = min(VISIBLE, window.visible(lefts[-1], rights[-1]))
    if not window.suits(lefts[-1], rights[-1]):
        return None
    best: Span | None = None
    right = len(rights) - 1
    for left in lefts:
        if best is not None and hole[1] - left >= best[1] - best[0]:
            break
        if not window.suits(left, rights[right]):
            continue
        right = _first(window, left, rights, right)
        found = (left, rights[right])
        if best is None or found[1] - found[0] < best[1] - best[0]:
            best = found
    return best


def _first(window: _Window, left: int, rights: Sequence[int], known: int) -> int:
    """The lowest index of `rights` that suits, by halving; the one `known` does."""
    low, high = 0, known
    while low < high:
        middle = (low + high) // 2
        if window.suits(left, rights[middle]):
            high = middle
        else:
            low = middle + 1
    return high


def _steps(start: int, text: bytes, direction: int) -> list[int]:
    """Offsets from `start` outwards, one token a step, beginning with `start` itself."""
    sizes = [len(token) for token in tokens(text)][::direction]
    return list(accumulate((direction * size for size in sizes), initial=start))


def _provable(final: bytes, find: bytes, replace: bytes) -> bool:
    """Whether a later look at the finished text finds the edit made, once, and no anchor left."""
    whole = (0, len(final))
    if not _once(final, whole, replace):
        return False
    first = final.find(replace)
    last = first + len(replace)
    if final.find(find, 0, first + len(find) - 1) >= 0:
        return False
    return final.find(find, max(last - len(find) + 1, 0)) < 0


def _once(data: bytes, scope: Span, text: bytes) -> bool:
    """Whether a text stands exactly once in a scope; stops at the second."""
    first = data.find(text, *scope)
    return first >= 0 and data.find(text, first + 1, scope[1]) < 0

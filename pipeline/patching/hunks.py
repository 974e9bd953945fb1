"""Where two versions of a file differ: changed lines, narrowed to the words that changed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pipeline.patching.matching import Span
from pipeline.patching.tokens import narrowed

_CHUNK = 1 << 16
# beyond this product of line counts, lines between two anchors of the comparison are one change
_MOST_PAIRS = 4_000_000


@dataclass(frozen=True)
class Hunk:
    """`old[span]` becomes `text`; one of the two may be empty, never both."""

    span: Span
    text: bytes

    def joined(self, other: Hunk, old: bytes) -> Hunk:
        """This hunk and a later one as one, with what stands between them."""
        between = old[self.span[1] : other.span[0]]
        return Hunk((self.span[0], other.span[1]), self.text + between + other.text)


def find_hunks(old: bytes, new: bytes) -> list[Hunk]:
    """The changes that make `new` of `old`, in order, apart from each other.

    Large files cost what their changed part costs.
    """
    if old == new:
        return []
    head = _line_start(old, _common_head(old, new))
    tail = _common_tail(old[head:], new[head:])
    before = old[head : len(old) - tail].splitlines(keepends=True)
    after = new[head : len(new) - tail].splitlines(keepends=True)
    offsets = [head]
    for line in before:
        offsets.append(offsets[-1] + len(line))
    found = []
    for a1, a2, b1, b2 in _changes(before, after):
        span, text = narrowed(old, (offsets[a1], offsets[a2]), b"".join(after[b1:b2]))
        found.append(Hunk(span, text))
    return found


def _changes(a: Sequence[bytes], b: Sequence[bytes]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of lines that differ: lines that stand once in both texts are matched first."""
    i = j = 0
    for x, y in [*_once_in_both(a, b), (len(a), len(b))]:
        for i1, i2, j1, j2 in _plain_changes(a[i:x], b[j:y]):
            yield i + i1, i + i2, j + j1, j + j2
        i, j = x + 1, y + 1


def _plain_changes(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int, int, int]]:
    if not a and not b:
        return []
    if len(a) * len(b) > _MOST_PAIRS:
        return [(0, len(a), 0, len(b))]
    codes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return [(i1, i2, j1, j2) for tag, i1, i2, j1, j2 in codes if tag != "equal"]


def _once_in_both(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int]]:
    """Lines that stand exactly once in each text, as many as stand in the same order."""
    count_a, count_b = Counter(a), Counter(b)
    where = {line: number for number, line in enumerate(b) if count_b[line] == 1}
    pairs = [(i, where[line]) for i, line in enumerate(a) if count_a[line] == 1 and line in where]
    lowest: list[int] = []  # by length of a sequence: the lowest last line of b
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(lowest, j)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [j]
        ends[length : length + 1] = [number]
    chosen = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _common_head(a: bytes, b: bytes) -> int:
    """How many bytes are equal at the start."""
    size = min(len(a), len(b))
    for start in range(0, size, _CHUNK):
        one, other = a[start : start + _CHUNK], b[start : start + _CHUNK]
        if one != other:
            pairs = zip(one, other, strict=False)
            return start + next((i for i, (x, y) in enumerate(pairs) if x != y), size - start)
    return size


def _common_tail(a: bytes, b: bytes) -> int:
    """How many bytes are equal at the end, in whole lines of both."""
    size = min(len(a), len(b))
    same = 0
    while same < size:
        step = min(_CHUNK, size - same)
        one = a[len(a) - same - step : len(a) - same]
        other = b[len(b) - same - step : len(b) - same]
        if one != other:
            pairs = zip(reversed(one), reversed(other), strict=True)
            same += next(i for i, (x, y) in enumerate(pairs) if x != y)
            break
        same += step
    # back to a line end that both have before the equal part
    start = len(a) - same
    while same and not (_starts_line(a, start) and _starts_line(b, len(b) - same)):
        end = a.find(b"\n", start)
        step = (end + 1 - start) if end >= 0 else same
        start, same = start + step, same - step
    return same


def _starts_line(data: bytes, at: int) -> bool:
    return at == 0 or data[at - 1 : at] == b"\n"


def _line_start(data: bytes, at: int) -> int:
    return data.rfind(b"\n", 0, at) + 1

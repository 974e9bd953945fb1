"""Text as words, blanks and signs: where two texts differ, and how two changes of one go together.

Everything works on bytes, so that no encoding matters. Bytes beyond ASCII belong to words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from pipeline.patching.matching import Span

_TOKEN = re.compile(rb"[A-Za-z0-9_\x80-\xff]+|[ \t]+|\r\n|.", re.DOTALL)

# beyond this many tokens a change is taken as a whole: comparing costs their product
_MOST_TOKENS = 4_000

Change = tuple[int, int, tuple[bytes, ...]]
"""Tokens `first` to `last` of a base text, and what stands in their place."""


def tokens(data: bytes) -> list[bytes]:
    """The text in pieces: words, runs of blanks, line ends, and single signs."""
    return _TOKEN.findall(data)


def narrowed(before: bytes, span: Span, after: bytes) -> tuple[Span, bytes]:
    """A change without what is equal on both of its sides, at token boundaries.

    `before[span]` becomes `after`. Returns a span inside of it and the text for that span.
    """
    old, new = tokens(before[slice(*span)]), tokens(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start = span[0] + sum(map(len, old[:head]))
    end = span[1] - sum(map(len, old[len(old) - tail :]))
    return (start, end), b"".join(new[head : len(new) - tail])


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """`theirs` with the change from `base` to `ours` made in it; None when the changes touch.

    What one of them inserts beside what the other changes goes together: there is one order only.
    """
    pieces = tokens(base)
    one, other = _changes(pieces, tokens(ours)), _changes(pieces, tokens(theirs))
    for first in one:
        for second in other:
            if first != second and _touch(first, second):
                return None
    merged, position = [], 0
    for start, end, text in sorted({*one, *other}):
        merged += [*pieces[position:start], *text]
        position = end
    return b"".join([*merged, *pieces[position:]])


def _touch(first: Change, second: Change) -> bool:
    insertions = (first[0] == first[1]) + (second[0] == second[1])
    if insertions == 1:
        return first[0] < second[1] and second[0] < first[1]
    return first[0] <= second[1] and second[0] <= first[1]


def contained(text: bytes, other: bytes) -> tuple[float, Span]:
    """Which share of a short text's tokens stands in another, in order, blanks apart: 0 to 1.

    Long tokens weigh more than signs. Also the span of `other` that stands for the text:
    from its first token to its last, found or not.
    """
    old = [token for token in tokens(text) if not token.isspace()]
    offsets, new, position = [], [], 0
    for token in tokens(other):
        if not token.isspace():
            offsets.append(position)
            new.append(token)
        position += len(token)
    if not old or not new or max(len(old), len(new)) > _MOST_TOKENS:
        return 0.0, (0, 0)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size]
    if not blocks:
        return 0.0, (0, 0)
    # as much again on both sides as the text has there that was not found
    first = max(blocks[0].b - blocks[0].a, 0)
    rest = len(old) - blocks[-1].a - blocks[-1].size
    last = min(blocks[-1].b + blocks[-1].size + rest, len(new)) - 1
    span = (offsets[first], offsets[last] + len(new[last]))
    held = sum(len(b"".join(old[block.a : block.a + block.size])) for block in blocks)
    return held / len(b"".join(old)), span


def _changes(base: Sequence[bytes], other: Sequence[bytes]) -> list[Change]:
    if max(len(base), len(other)) > _MOST_TOKENS:
        return [] if base == other else [(0, len(base), tuple(other))]
    matcher = SequenceMatcher(None, base, other, autojunk=False)
    return [
        (i1, i2, tuple(other[j1:j2]))
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]

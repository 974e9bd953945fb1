"""Where in a scope the text stands that an anchor once was, and what the edit makes of it now."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from pipeline.patching.anchors import shortest_anchor
from pipeline.patching.hints import loosened
from pipeline.patching.matching import Span, occurrences
from pipeline.patching.tokens import contained, merge, narrowed

ENOUGH = 0.75
"""How much of an old text must be left in a new one for the two to be called the same place."""

_MOST_LINES = 5_000  # of a scope; comparing costs the product of two lengths
_TRIED = 24  # windows that are compared token by token
_INDENT = re.compile(rb"^[ \t]*")


@dataclass(frozen=True)
class Base:
    """What an edit did where it was written for: `text` became `made`, in whole lines if known.

    `scope` is the scope's text there and `span` the place of `text` in it; both are empty when that
    release is not at hand: then `text` is the anchor.
    """

    text: bytes
    made: bytes
    scope: bytes = b""
    span: Span = (0, 0)


@dataclass(frozen=True)
class Drift:
    """Old text found again at `span`. `edit` is the anchor's span there and its replacement, or
    None when what upstream changed and what the edit changes cannot be told apart."""

    span: Span
    edit: tuple[Span, bytes] | None


def base_of(find: bytes, replace: bytes, origin: bytes | None, scope: Span, at: Span) -> Base:
    """The base of an edit whose anchor stands at `at` in `origin`, in the scope `scope`."""
    if origin is None:
        return Base(find, replace)
    first = max(origin.rfind(b"\n", 0, at[0]) + 1, scope[0])
    last = origin.find(b"\n", at[1] - 1) + 1 or len(origin)
    last = min(max(last, at[1]), max(scope[1], at[1]))
    text = origin[first:last]
    made = origin[first : at[0]] + replace + origin[at[1] : last]
    span = (first - scope[0], last - scope[0])
    return Base(text, made, origin[slice(*scope)], span)


def find_drift(data: bytes, scope: Span, base: Base, find: bytes) -> Drift | None:
    """The old text of an edit in `data[scope]`, the surest way first; None when nothing is like it.

    By what stands around it, by the anchor with white space or case not minded, by its words.
    """
    for span in _spans(data, scope, base, find):
        there = data[slice(*span)]
        text, made = _at_depth_of(there, base)
        merged = merge(text, made, there)
        if merged is None or merged == there:
            return Drift(span, None)
        hole, new = _no_less(data, *narrowed(data, span, merged), span, find)
        anchor = shortest_anchor(data, scope, hole, new)
        if anchor is None:
            return Drift(span, None)
        return Drift(span, (anchor, data[anchor[0] : hole[0]] + new + data[hole[1] : anchor[1]]))
    return None


def _no_less(data: bytes, hole: Span, new: bytes, span: Span, find: bytes) -> tuple[Span, bytes]:
    """A change together with what is left of the old anchor: a new one must not accept more."""
    _, (first, last) = contained(find, data[slice(*span)])
    start, end = min(hole[0], span[0] + first), max(hole[1], span[0] + last)
    return (start, end), data[start : hole[0]] + new + data[hole[1] : end]


def reindented(text: bytes, by: int) -> bytes:
    """Every line but the first moved `by` columns; empty lines and lines without room stay."""
    first, *rest = text.split(b"\n")
    lines = [first]
    for line in rest:
        if line.strip() and by > 0:
            line = b" " * by + line
        elif by < 0 and line.startswith(b" " * -by):
            line = line[-by:]
        lines.append(line)
    return b"\n".join(lines)


def indent_at(data: bytes, offset: int) -> int:
    """How deep the line of an offset is indented, in bytes."""
    start = data.rfind(b"\n", 0, offset) + 1
    return _depth(data[start : start + 200])


def _spans(data: bytes, scope: Span, base: Base, find: bytes) -> Iterator[Span]:
    aligned = _aligned(data, scope, base) if base.scope else None
    if aligned:
        span = _window(data, aligned, base.text, whole=True)
        if span:
            yield span
    for _, pattern in loosened(find):
        hits = list(pattern.finditer(data, *scope))
        if len(hits) == 1:
            yield _lines_around(data, hits[0].span()) if base.scope else hits[0].span()
    # of several anchors none is more like it, and in a whole file something always is
    if not occurrences(data, scope, find) and scope != (0, len(data)):
        span = _window(data, scope, base.text, whole=bool(base.scope))
        if span:
            yield span


def _aligned(data: bytes, scope: Span, base: Base) -> Span | None:
    """The lines of the scope that stand where the old text stood, by comparing both scopes."""
    old = [line.strip() for line in base.scope.splitlines()]
    lines = data[slice(*scope)].splitlines(keepends=True)
    if max(len(old), len(lines)) > _MOST_LINES:
        return None
    first = len(base.scope[: base.span[0]].splitlines())
    last = first + len(base.text.splitlines())
    codes = SequenceMatcher(None, old, [x.strip() for x in lines], autojunk=False).get_opcodes()
    hit: list[int] = []
    for tag, i1, i2, j1, j2 in codes:
        if i1 < last and first < i2:
            same = tag == "equal"
            hit += [j1 + max(first - i1, 0) if same else j1, j2 - max(i2 - last, 0) if same else j2]
    if not hit or min(hit) == max(hit):
        return None
    start = scope[0] + sum(map(len, lines[: min(hit)]))
    return start, start + sum(map(len, lines[min(hit) : max(hit)]))


def _window(data: bytes, region: Span, text: bytes, *, whole: bool) -> Span | None:
    """The lines in a region that hold most of the words of a text; None below ENOUGH.

    Not `whole`: only from the first to the last of these words.
    """
    lines = data[slice(*region)].splitlines(keepends=True)
    size = max(len(text.splitlines()), 1)
    words = Counter(_words(text))
    if not words or len(lines) > _MOST_LINES:
        return None
    counted = [Counter(_words(line)) for line in lines]
    tried: list[tuple[int, int, int]] = []
    for length in range(max(size - 1, 1), size + 3):
        for first in range(max(len(lines) - length + 1, 0)):
            held = words & sum(counted[first : first + length], Counter())
            tried.append((-sum(held.values()), length, first))
    best: tuple[float, int, Span] | None = None
    for _, length, first in sorted(tried)[:_TRIED]:
        start = region[0] + sum(map(len, lines[:first]))
        window = b"".join(lines[first : first + length])
        share, inside = contained(text, window)
        span = (start, start + len(window))
        if not whole:
            span = (start + inside[0], start + inside[1])
        if share >= ENOUGH and (best is None or (share, -length) > best[:2]):
            best = (share, -length, span)
    return best[2] if best else None


def _words(text: bytes) -> Sequence[bytes]:
    return re.findall(rb"[A-Za-z0-9_\x80-\xff]+", text)


def _lines_around(data: bytes, span: Span) -> Span:
    end = data.find(b"\n", span[1] - 1) + 1
    return data.rfind(b"\n", 0, span[0]) + 1, end or len(data)


def _at_depth_of(there: bytes, base: Base) -> tuple[bytes, bytes]:
    """Old text and replacement, indented as the text is now."""
    now = {line.strip(): _depth(line) for line in there.split(b"\n")[::-1]}
    lines = base.text.split(b"\n")
    for line in lines if base.scope else lines[1:]:
        if line.strip() in now and line.strip():
            by = now[line.strip()] - _depth(line)
            break
    else:
        by = _depth(there) - _depth(base.text) if base.scope else 0
    if not by:
        return base.text, base.made
    if not base.scope:
        return reindented(base.text, by), reindented(base.made, by)
    moved = [reindented(b"\n" + text, by)[1:] for text in (base.text, base.made)]
    return moved[0], moved[1]


def _depth(line: bytes) -> int:
    match = _INDENT.match(line)
    return len(match[0]) if match else 0

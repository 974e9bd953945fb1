"""Why an anchor was not found: what differs, and where. Hints are for people and decide nothing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from pipeline.patching.matching import Span, occurrences
from pipeline.patching.scopes import enclosing

_END = re.compile(rb"\r\n|\r|\n")
_ANY_END = rb"(?:\r\n|\r|\n)"
_BLANKS = b" \t"

K = TypeVar("K", bound=Hashable)

# beyond this a scope is compared exactly only: likeness of lines is slow, and no more than a help
_MOST_LINES = 20_000
_MOST_BYTES = 16_000_000  # beyond this only exact text is looked for


def near_misses(path: str, data: bytes, scope: Span, find: bytes) -> tuple[str, tuple[int, ...]]:
    """What comes nearest to an anchor that is not in the scope: a remark, and lines (1…).

    The remark is empty when nothing comes near.
    """
    elsewhere = occurrences(data, (0, len(data)), find)
    if elsewhere:
        lines = tuple(line_of(data, start) for start, _ in elsewhere)
        start, _ = elsewhere[0]
        if scope[0] <= start < scope[1]:
            return f"it starts at line {lines[0]} and runs past the end of the scope", lines
        around = enclosing(path, data, start) or "no scope"
        return f"it stands outside the scope, at {_lines(lines)} ({around})", lines
    if scope[1] - scope[0] > _MOST_BYTES:
        return "", ()
    for difference, pattern in loosened(find):
        hit = pattern.search(data, *scope) or pattern.search(data[:_MOST_BYTES])
        if hit:
            number, found, wanted = _first_difference(hit[0], find)
            if difference == "indentation" and _depth(found) == _depth(wanted):
                difference = "indentation characters"
            line = line_of(data, hit.start()) + number
            inside = scope[0] <= hit.start() and hit.end() <= scope[1]
            where = "" if inside else ", outside the scope"
            return f"differs only in {difference}, line {line}{where}", (line,)
    return _alike(data, scope, find)


def line_of(data: bytes, offset: int) -> int:
    """The line (1…) on which a byte stands."""
    ends = data.count(b"\n", 0, offset) + data.count(b"\r", 0, offset)
    return ends - data.count(b"\r\n", 0, offset) + 1


def holders(
    wanted: Mapping[K, bytes], candidates: Iterable[str], read: Callable[[str], bytes | None]
) -> dict[K, list[str]]:
    """Which candidate files hold each wanted text: by key, sorted. Each file is read once."""
    found: dict[K, list[str]] = {key: [] for key in wanted}
    for path in sorted(candidates):
        data = read(path)
        for key, text in wanted.items():
            if data is not None and text in data:
                found[key].append(path)
    return found


def loosened(find: bytes) -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """The anchor with one thing after another not minded, the smallest first.

    Each with what it is called: line ends, trailing whitespace, indentation, white space, case.
    """
    lines = _END.split(find)
    yield "line ends", re.compile(_ANY_END.join(map(re.escape, lines)))
    stripped = [*(line.rstrip(_BLANKS) for line in lines[:-1]), lines[-1]]
    trailing = (rb"[ \t]*" + _ANY_END).join(map(re.escape, stripped))
    yield "trailing whitespace", re.compile(trailing)
    if find.strip():
        bare = [re.escape(line.strip(_BLANKS)) for line in lines]
        indented = (rb"[ \t]*" + _ANY_END + rb"[ \t]*").join(bare)
        head = rb"(?:^|(?<=[\r\n]))[ \t]*" if find[:1] in (b" ", b"\t") else b""
        yield "indentation", re.compile(head + indented)
        yield "white space", re.compile(rb"\s+".join(map(re.escape, find.split())))
        yield "case", re.compile(_ANY_END.join(map(re.escape, lines)), re.IGNORECASE)


def _first_difference(found: bytes, wanted: bytes) -> tuple[int, bytes, bytes]:
    """The first line (0…) in which two texts differ, and that line of both."""
    theirs, ours = found.splitlines(keepends=True), wanted.splitlines(keepends=True)
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            return number, one, other
    return 0, found, wanted


def _depth(line: bytes) -> int:
    """How far a line is indented, in columns, with a tab for four."""
    head = line[: len(line) - len(line.lstrip(_BLANKS))]
    return len(head.replace(b"\t", b"    "))


def _alike(data: bytes, scope: Span, find: bytes) -> tuple[str, tuple[int, ...]]:
    """The lines of the scope that look like the anchor's longest line."""
    longest = max((line.strip() for line in _END.split(find)), key=len)
    texts = [line.strip() for line in _END.split(data[slice(*scope)])]
    if not longest or len(texts) > _MOST_LINES:
        return "", ()
    by_text: dict[str, list[int]] = {}
    first = line_of(data, scope[0])
    for number, text in enumerate(texts, first):
        by_text.setdefault(text.decode("latin-1"), []).append(number)
    close = difflib.get_close_matches(longest.decode("latin-1"), by_text, n=3, cutoff=0.75)
    lines = tuple(sorted(number for text in close for number in by_text[text]))[:5]
    return (f"like it: {_lines(lines)}", lines) if lines else ("", ())


def _lines(numbers: tuple[int, ...]) -> str:
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"

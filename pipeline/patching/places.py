"""Where the text of an edit has gone to in a release that it does not fit.

A place is a scope of a file that holds the anchor, or has the scope's name. Places are compared by
what stands around the anchor in the release that the edit was written for, when that is at hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TypeVar

from pipeline.patching.encoding import PYTHON_SUFFIXES
from pipeline.patching.matching import Span, occurrences
from pipeline.patching.model import Edit
from pipeline.patching.scopes import ScopeFault, find_scope, scopes_around

Read = Callable[[str], bytes | None]

K = TypeVar("K", bound=Hashable)

_AROUND = 10  # lines before and after an anchor that say where it stands
_LOOKED_AT = 40  # files whose scopes are parsed, for one edit


@dataclass(frozen=True)
class Place:
    """A scope where an edit might belong now. `within` None is the whole file.

    `holds` says whether the anchor stands in it exactly as often as it should, `named` whether it
    has the name of the edit's own scope. `likeness` compares the surroundings, 0 to 1.
    """

    file: str
    within: str | None
    holds: bool
    named: bool
    likeness: float
    near: int

    @property
    def rank(self) -> tuple[bool, bool, int, float, int]:
        """Higher is better. A namesake is told from another by its folder, not by its text."""
        return self.holds, self.named, self.near if self.named else 0, self.likeness, self.near


def origin_span(edit: Edit, origin: bytes | None) -> Span | None:
    """Where the first anchor stands in the release that the edit was written for."""
    scope = scope_span(edit.file, origin, edit.within) if origin is not None else None
    if origin is None or scope is None:
        return None
    return next(iter(occurrences(origin, scope, edit.find.encode())), None)


def scope_span(path: str, data: bytes, within: str | None) -> Span | None:
    """The span of a scope, or None when it is not there exactly once."""
    if within is None:
        return 0, len(data)
    try:
        scope = find_scope(path, data, within)
    except ScopeFault:
        return None
    return scope.start, scope.end


def find_places(
    edits: Mapping[K, Edit],
    origins: Mapping[K, bytes | None],
    beside: Mapping[K, Iterable[str]],
    candidates: Iterable[str],
    read: Read,
) -> dict[K, list[Place]]:
    """The places of each edit in all candidate files, the best first. Each file is read once.

    `origins` are the edits' own files in the release that they were written for, `beside` the
    files that the same patch edits.
    """
    suffixes = {PurePosixPath(edit.file).suffix for edit in edits.values()}
    named = {key: _naming(edit) for key, edit in edits.items()}
    hits: dict[K, list[tuple[str, bytes]]] = {key: [] for key in edits}
    for path in sorted(candidates):
        if PurePosixPath(path).suffix not in suffixes or (data := read(path)) is None:
            continue
        for key, edit in edits.items():
            pattern = named[key]
            if edit.find.encode() in data or (pattern and pattern(data)):
                hits[key].append((path, data))
    found = {}
    for key, edit in edits.items():
        folders = {str(PurePosixPath(file).parent) for file in beside[key]}
        places: list[Place] = []
        files = sorted(hits[key], key=lambda hit: -nearness(hit[0], folders))
        for path, data in files[:_LOOKED_AT]:
            near = nearness(path, folders)
            places += _places(edit, origins[key], path, data, near)
        found[key] = sorted(places, key=lambda place: place.rank, reverse=True)
    return found


def nearness(path: str, folders: Iterable[str]) -> int:
    """How many folders a file shares with the nearest of `folders`."""
    parts = PurePosixPath(path).parent.parts
    pairs = [zip(parts, PurePosixPath(folder).parts, strict=False) for folder in folders]
    return max((sum(1 for _ in takewhile(_equal, pair)) for pair in pairs), default=0)


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _naming(edit: Edit) -> Callable[[bytes], bool] | None:
    """Whether a file may define the edit's scope: a quick look, without parsing."""
    if edit.within is None:
        return None
    *outer, last = edit.within.replace("::", ".").encode().split(b".")
    head = rb"\b(?:def|class)\s+" if PurePosixPath(edit.file).suffix in PYTHON_SUFFIXES else rb"\b"
    pattern = re.compile(head + re.escape(last) + rb"\b")
    return lambda data: all(name in data for name in outer) and bool(pattern.search(data))


def _places(edit: Edit, origin: bytes | None, path: str, data: bytes, near: int) -> Iterable[Place]:
    find = edit.find.encode()
    here = occurrences(data, (0, len(data)), find)
    within: dict[str | None, bool] = {}
    if edit.within is not None and scope_span(path, data, edit.within):
        within[edit.within] = True
    for start, end in here:
        around = scopes_around(path, data, start, end)
        if not any(name in within for name, _ in around):
            within.setdefault(around[0][0] if around else None, edit.within is None)
    own = origin_span(edit, origin)
    for name, same in within.items():
        span = scope_span(path, data, name)
        if span is None:
            continue
        inside = [s for s in here if span[0] <= s[0] and s[1] <= span[1]]
        likeness = 0.0
        if origin is not None and own is not None:
            likeness = max((_likeness(origin, own, data, s) for s in inside), default=0.0)
        yield Place(path, name, len(inside) == edit.count, same, likeness, near)


def _likeness(one: bytes, at: Span, other: bytes, there: Span) -> float:
    """Which share of the lines around one anchor stands around the other too."""
    lines, others = _around(one, at), _around(other, there)
    if not lines:
        return 0.0
    return sum((lines & others).values()) / sum(lines.values())


def _around(data: bytes, span: Span) -> Counter[bytes]:
    before = data[: span[0]].splitlines()[-_AROUND:]
    after = data[span[1] : span[1] + 4_000].splitlines()[: _AROUND + 1]
    return Counter(line.strip() for line in [*before, *after] if line.strip())

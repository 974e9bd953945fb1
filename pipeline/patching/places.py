"""Where the text of an edit has gone to in a release that it does not fit.

A place is a scope of a file that holds the anchor, or has the scope's name. Places are compared by
what stands around the anchor in the release that the edit was written for, when that is at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import PurePosixPath

from pipeline.patching.definitions import cpp_parts
from pipeline.patching.encoding import PYTHON_SUFFIXES
from pipeline.patching.matching import Span, occurrences
from pipeline.patching.model import Edit
from pipeline.patching.scopes import ScopeFault, find_scope, scopes_around

Read = Callable[[str], bytes | None]

Key = tuple[str, str]
"""A patch's name and an edit's id."""

_AROUND = 10  # lines before and after an anchor that say where it stands
_FAR = 4_000  # bytes in which they are looked for
KIN = 0.3
"""Likeness above which a text elsewhere is the one that has moved, and not there by chance."""

SAME = 0.6
"""Likeness above which there is no doubt that two texts are one."""

_LOOKED_AT = 40  # files whose scopes are parsed, for one edit


@dataclass(frozen=True)
class Place:
    """A scope where an edit might belong now. `within` None is the whole file.

    `holds` says whether the anchor stands in it exactly as often as it should, `named` whether it
    has the name of the edit's own scope (of an edit without one: is what its file has become).
    `likeness` compares the scopes, or else what stands around the anchors, 0 to 1.
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
    edits: Mapping[Key, Edit],
    origins: Mapping[Key, bytes | None],
    beside: Collection[str],
    candidates: Iterable[str],
    read: Read,
) -> dict[Key, list[Place]]:
    """The places of each edit in all candidate files, the best first. Each file is read once.

    `origins` are the edits' own files in the release that they were written for, `beside` the
    files that patches of this distribution edit: of two namesakes the nearer one is meant.
    """
    suffixes = {PurePosixPath(edit.file).suffix for edit in edits.values()}
    texts = {edit.find: edit.find.encode() for edit in edits.values()}
    named = {(edit.within, edit.file): _naming(edit) for edit in edits.values()}
    hits: dict[Key, dict[str, bytes]] = {key: {} for key in edits}
    for path in sorted(candidates):
        if PurePosixPath(path).suffix not in suffixes or (data := read(path)) is None:
            continue
        holding = {find for find, text in texts.items() if text in data}
        naming = {scope for scope, may_name in named.items() if may_name(data)}
        for key, edit in edits.items():
            if edit.find in holding or (edit.within, edit.file) in naming:
                hits[key][path] = data
    found: dict[Key, list[Place]] = {}
    folders = {str(PurePosixPath(file).parent) for file in beside}
    # an edit without a scope goes where the scopes of its file went, so these come first
    for key, edit in sorted(edits.items(), key=lambda item: item[1].within is None):
        near = {path: nearness(path, folders) for path in hits[key]}
        if edit.within is None:
            with_it = {
                found[other][0].file
                for other, e in edits.items()
                if other[0] == key[0] and e.within and e.file == edit.file
                if found[other] and found[other][0].named
            }
            stayed = not with_it and _still_there(origins[key], read(edit.file))
            files = set() if stayed else with_it or set(hits[key])
            paths = sorted(files - {edit.file})
            places = [
                _file_place(
                    edit,
                    origins[key],
                    path,
                    hits[key].get(path) or read(path) or b"",
                    with_it,
                    near.get(path, 0),
                )
                for path in paths
            ]
        else:
            paths = sorted(hits[key], key=lambda path: -near[path])[:_LOOKED_AT]
            places = [
                place
                for path in paths
                for place in _places(edit, origins[key], path, hits[key][path], near[path])
            ]
        found[key] = sorted(places, key=lambda place: place.rank, reverse=True)
    return found


def file_likeness(one: bytes, other: bytes) -> float:
    """Which share of the different lines of one text stands in the other; below KIN maybe 0."""
    lines = _lines(one)
    if other.count(b"\n") + 1 < KIN * len(lines):
        return 0.0  # too short to be it: not worth the comparison
    return len(lines & _lines(other)) / len(lines) if lines else 0.0


@lru_cache(maxsize=1024)
def _lines(data: bytes) -> frozenset[bytes]:
    return frozenset(line.strip() for line in data.splitlines()) - {b""}


def _still_there(origin: bytes | None, data: bytes | None) -> bool:
    """Whether a file is what it was in the release that an edit was written for, by and large."""
    if origin is None or data is None:
        return data is not None
    return file_likeness(origin, data) >= SAME


def _file_place(
    edit: Edit, origin: bytes | None, path: str, data: bytes, with_it: set[str], near: int
) -> Place:
    """A whole file as a place: `named` when it is what the edit's own file has become."""
    likeness = file_likeness(origin, data) if origin is not None else 0.0
    count = len(occurrences(data, (0, len(data)), edit.find.encode()))
    return Place(
        path, None, count == edit.count, path in with_it or likeness >= KIN, likeness, near
    )


def nearness(path: str, folders: Iterable[str]) -> int:
    """How many folders a file shares with the nearest of `folders`."""
    parts = PurePosixPath(path).parent.parts
    pairs = [zip(parts, PurePosixPath(folder).parts, strict=False) for folder in folders]
    return max((sum(1 for _ in takewhile(_equal, pair)) for pair in pairs), default=0)


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _naming(edit: Edit) -> Callable[[bytes], bool]:
    """Whether a file may define the edit's scope: a quick look, without parsing."""
    if edit.within is None:
        return lambda data: False
    python = PurePosixPath(edit.file).suffix in PYTHON_SUFFIXES
    parts = edit.within.split(".") if python else cpp_parts(edit.within)
    *outer, last = (part.encode() for part in parts)
    heads = (b"def " + last, b"class " + last) if python else (last,)
    return lambda data: all(name in data for name in outer) and any(head in data for head in heads)


def _places(edit: Edit, origin: bytes | None, path: str, data: bytes, near: int) -> Iterable[Place]:
    find = edit.find.encode()
    here = occurrences(data, (0, len(data)), find)
    within: dict[str | None, bool] = {}
    if _naming(edit)(data) and scope_span(path, data, edit.within):
        within[edit.within] = True
    own = origin_span(edit, origin)
    for start, end in here:
        if origin is not None and own and _likeness(origin, own, data, (start, end)) < KIN:
            continue  # there by chance
        around = scopes_around(path, data, start, end)
        if not any(name in within for name, _ in around):
            within.setdefault(around[0][0] if around else None, False)
    old = scope_span(edit.file, origin, edit.within) if origin is not None else None
    for name, same in within.items():
        span = scope_span(path, data, name)
        if span is None:
            continue
        inside = [s for s in here if span[0] <= s[0] and s[1] <= span[1]]
        likeness = 0.0
        if origin is not None and same and old is not None:
            likeness = file_likeness(origin[slice(*old)], data[slice(*span)])
        elif origin is not None and own is not None:
            likeness = max((_likeness(origin, own, data, s) for s in inside), default=0.0)
        yield Place(path, name, len(inside) == edit.count, same, likeness, near)


def _likeness(one: bytes, at: Span, other: bytes, there: Span) -> float:
    """Which share of the lines around one anchor stands around the other too."""
    lines, others = _around(one, at), _around(other, there)
    if not lines:
        return 0.0
    return sum((lines & others).values()) / sum(lines.values())


def _around(data: bytes, span: Span) -> Counter[bytes]:
    before = data[max(span[0] - _FAR, 0) : span[0]].splitlines()[-_AROUND:]
    after = data[span[1] : span[1] + _FAR].splitlines()[: _AROUND + 1]
    return Counter(line.strip() for line in [*before, *after] if line.strip())

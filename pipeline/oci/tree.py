"""The merged view of layers: what a container of these layers would see.

Rules: image-spec, layer.md. Whiteouts act on lower layers only, wherever they stand in their own
layer; what is not a directory hides a directory of lower layers; entries below a symbolic link go
where the link leads, as runtimes that unpack layers do.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.oci.index import DIRECTORY, HARDLINK, OPAQUE, SYMLINK, WHITEOUT, Entry

_MAX_LINKS = 40  # as Linux: more is a loop


class Located(NamedTuple):
    """An entry and the number of the layer (0 is the lowest) that brought it."""

    entry: Entry
    layer: int


@dataclass(frozen=True)
class Tree:
    """Paths of the merged file system.

    `nodes` maps a path to its entry and layer, in no order; `layers` counts what was merged.
    """

    nodes: Mapping[str, Located]
    layers: int

    @classmethod
    def merge(cls, layers: Iterable[Sequence[Entry]], below: Tree | None = None) -> Tree:
        """Merge layers, lowest first, on top of `below` (whose layer numbers go on)."""
        nodes = dict(below.nodes) if below else {}
        number = below.layers if below else 0
        for entries in layers:
            _apply(nodes, entries, number)
            number += 1
        return cls(nodes, number)

    def get(self, path: str) -> Located | None:
        """Return what is at exactly this path; no link is followed."""
        return self.nodes.get(path)

    def resolve(self, path: str) -> Located | None:
        """Return what `path` leads to with links followed; links never leave the root."""
        real = _follow(self.nodes, path)
        return None if real is None else self.nodes.get(real)

    def real_path(self, path: str) -> str | None:
        """Return the path that `path` leads to with links followed; None for a loop of links."""
        return _follow(self.nodes, path)

    def under(self, directory: str) -> list[Located]:
        """Return everything below a directory, sorted by path."""
        prefix = directory.rstrip("/") + "/"
        return [self.nodes[path] for path in sorted(self.nodes) if path.startswith(prefix)]

    def __iter__(self) -> Iterator[Located]:
        return (self.nodes[path] for path in sorted(self.nodes))

    def __len__(self) -> int:
        return len(self.nodes)


def _follow(nodes: Mapping[str, Located], path: str) -> str | None:
    """Resolve every link of `path`, the last part too, as a chroot would."""
    pending = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    done: list[str] = []
    hops = 0
    while pending:
        part = pending.pop()
        if part == "..":
            if done:
                done.pop()
            continue
        found = nodes.get("/".join([*done, part]))
        if found is None or found.entry.type != SYMLINK:
            done.append(part)
            continue
        hops += 1
        if hops > _MAX_LINKS:
            return None
        target = found.entry.link
        if target.startswith("/"):
            done.clear()
        pending.extend(p for p in reversed(target.split("/")) if p not in ("", "."))
    return "/".join(done)


def _apply(nodes: dict[str, Located], entries: Sequence[Entry], number: int) -> None:
    removed = {e.path for e in entries if e.type == WHITEOUT}
    emptied = {e.path for e in entries if e.type == OPAQUE}
    # Something else in place of a directory hides all that was below it.
    for entry in entries:
        if entry.type not in (WHITEOUT, OPAQUE, DIRECTORY):
            lower = nodes.get(entry.path)
            if lower is not None and lower.entry.type == DIRECTORY:
                emptied.add(entry.path)
    _remove(nodes, removed, emptied)
    parents: dict[str, str] = {}
    for entry in entries:
        if entry.type in (WHITEOUT, OPAQUE):
            continue
        parent, base = posixpath.split(entry.path)
        if parent:
            real = parents.get(parent)
            if real is None:
                real = parents[parent] = _follow(nodes, parent) or parent
            if real != parent:
                entry = entry._replace(path=posixpath.join(real, base))
        if entry.type == HARDLINK and not entry.sha256:
            lower = nodes.get(entry.link)
            if lower is not None:
                source = lower.entry
                entry = entry._replace(size=source.size, sha256=source.sha256)
        if entry.type == SYMLINK:
            parents.clear()  # what was resolved before may lead elsewhere now
        nodes[entry.path] = Located(entry, number)


def _remove(nodes: dict[str, Located], removed: set[str], emptied: set[str]) -> None:
    below = set(emptied)
    for path in removed:
        found = nodes.pop(path, None)
        if found is None or found.entry.type == DIRECTORY:
            below.add(path)
    if not below:
        return
    gone = []
    for path in nodes:
        cut = path.rfind("/")
        while cut > 0:
            if path[:cut] in below:
                gone.append(path)
                break
            cut = path.rfind("/", 0, cut)
    # The root itself can be opaque: its marker's path is "".
    if "" in below:
        gone = list(nodes)
    for path in gone:
        del nodes[path]

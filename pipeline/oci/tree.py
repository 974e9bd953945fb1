"""The merged view of layers: what a container of these layers would see.

Rules: image-spec, layer.md. Whiteouts act on lower layers only, wherever they stand in their own
layer; what is not a directory hides a directory of lower layers; entries below a symbolic link go
where the link leads, as runtimes that unpack layers do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
        # Not by truth: a tree without nodes may still be of many layers.
        nodes = dict(below.nodes) if below is not None else {}
        number = below.layers if below is not None else 0
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
        first = bisect_left(self._sorted, prefix)
        last = bisect_left(self._sorted, directory.rstrip("/") + "0", lo=first)  # "0" follows "/"
        return [self.nodes[path] for path in self._sorted[first:last]]

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.nodes)

    def __iter__(self) -> Iterator[Located]:
        return (self.nodes[path] for path in self._sorted)

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


class _Parents:
    """Where the parents of a layer's paths lead in the tree as it stands; remembers the answers."""

    def __init__(self, nodes: Mapping[str, Located]):
        self._nodes = nodes
        self._known: dict[str, str] = {"": ""}

    def real(self, path: str) -> str:
        """Return `path` with the links of its parent followed, but not of its last part."""
        parent, _, base = path.rpartition("/")
        if not parent:
            return path
        real = self._known.get(parent)
        if real is None:
            real = self._known[parent] = self._directory(parent)
        if real == parent:
            return path
        return f"{real}/{base}" if real else base

    def _directory(self, path: str) -> str:
        """Return where a directory really is: mostly one step from where its own parent is."""
        above, _, base = path.rpartition("/")
        known = self._known.get(above)
        if known is not None:
            step = f"{known}/{base}" if known else base
            found = self._nodes.get(step)
            if found is None or found.entry.type != SYMLINK:
                return step
        real = _follow(self._nodes, path)
        return path if real is None else real

    def forget(self) -> None:
        """Forget all: a link came or went."""
        self._known = {"": ""}


def _apply(nodes: dict[str, Located], entries: Sequence[Entry], number: int) -> None:
    parents = _Parents(nodes)
    removed: set[str] = set()
    emptied: set[str] = set()
    for entry in entries:
        if entry.type == WHITEOUT:
            removed.add(parents.real(entry.path))
        elif entry.type == OPAQUE:
            real = _follow(nodes, entry.path)
            emptied.add(entry.path if real is None else real)
        elif entry.type != DIRECTORY:
            # Something else in place of a directory hides all that was below it.
            path = parents.real(entry.path)
            lower = nodes.get(path)
            if lower is not None and lower.entry.type == DIRECTORY:
                emptied.add(path)
    _remove(nodes, removed, emptied)
    parents.forget()
    for entry in entries:
        if entry.type in (WHITEOUT, OPAQUE):
            continue
        path = parents.real(entry.path)
        if path != entry.path:
            entry = entry._replace(path=path)
        if entry.type == HARDLINK and not entry.sha256:
            lower = nodes.get(entry.link)
            if lower is not None:
                source = lower.entry
                entry = entry._replace(size=source.size, sha256=source.sha256)
        before = nodes.get(path)
        if entry.type == SYMLINK or (before is not None and before.entry.type == SYMLINK):
            parents.forget()
        nodes[path] = Located(entry, number)


def _remove(nodes: dict[str, Located], removed: set[str], emptied: set[str]) -> None:
    below = set(emptied)
    for path in removed:
        found = nodes.pop(path, None)
        if found is None or found.entry.type == DIRECTORY:
            below.add(path)
    if not below:
        return
    # The root itself can be opaque: its marker's path is "".
    if "" in below:
        nodes.clear()
        return
    # Of every directory, whether it or one above it loses what is below; most files share theirs.
    loses: dict[str, bool] = {"": False}

    def judge(directory: str) -> bool:
        above = directory
        while (known := loses.get(above)) is None:
            if above in below:
                known = True
                break
            above = above.rpartition("/")[0]
        loses[directory] = known
        return known

    for path in [path for path in nodes if judge(path.rpartition("/")[0])]:
        del nodes[path]

"""The merged view of layers: what a container of these layers would see.

Rules: image-spec, layer.md. Whiteouts act on lower layers only, wherever they stand in their own
layer; what is not a directory hides a directory of lower layers; entries below a symbolic link go
where the link leads, as runtimes that unpack layers do.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import repeat
from typing import NamedTuple

from pipeline.oci.index import DIRECTORY, FILE, HARDLINK, OPAQUE, SYMLINK, WHITEOUT, Entry
from pipeline.oci.links import Parents, follow


class Located(NamedTuple):
    """An entry and the number of the layer (0 is the lowest) that brought it."""

    entry: Entry
    layer: int


_locate = partial(tuple.__new__, Located)
Chosen = Callable[[Located], bool]
"""A question that depends on nothing but the node: a function of a module, never one made anew."""


@dataclass(frozen=True)
class Tree:
    """Paths of the merged file system.

    `nodes` maps a path to its entry and layer, in no order; `layers` counts what was merged. What
    was found out about a tree is handed to those on top of it: they differ in a few paths only.
    """

    nodes: Mapping[str, Located]
    layers: int
    _selected: dict[Chosen, dict[str, Located]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _changes: list[tuple[weakref.ref[Tree], frozenset[str]]] = field(
        default_factory=list, compare=False, repr=False
    )

    @classmethod
    def merge(cls, layers: Iterable[Sequence[Entry]], below: Tree | None = None) -> Tree:
        """Merge layers, lowest first, on top of `below` (whose layer numbers go on)."""
        # Not by truth: a tree without nodes may still be of many layers.
        nodes = dict(below.nodes) if below is not None else {}
        number = below.layers if below is not None else 0
        changed: set[str] = set()
        ordered = below.__dict__.get("_sorted") if below is not None else None
        for entries in layers:
            changed |= _apply(nodes, entries, number, ordered)
            ordered = None
            number += 1
        tree = cls(nodes, number)
        if below is not None:
            tree._take_over(below, changed)
        return tree

    def _take_over(self, below: Tree, changed: set[str]) -> None:
        self._changes.append((weakref.ref(below), frozenset(changed)))
        news = [self.nodes[path] for path in changed if path in self.nodes]
        for chosen, found in below._selected.items():
            kept = {path: node for path, node in found.items() if path not in changed}
            kept |= {node.entry.path: node for node in news if chosen(node)}
            self._selected[chosen] = kept
        if "_sorted" in below.__dict__:
            paths = [path for path in below._sorted if path not in changed]
            paths += sorted(node.entry.path for node in news)
            paths.sort()  # two runs: that is a merge
            self.__dict__["_sorted"] = paths

    def select(self, chosen: Chosen) -> Mapping[str, Located]:
        """Return the nodes of which `chosen` is true, by path, in no order."""
        found = self._selected.get(chosen)
        if found is None:
            found = {path: node for path, node in self.nodes.items() if chosen(node)}
            self._selected[chosen] = found
        return found

    def changed_since(self, below: Tree) -> frozenset[str] | None:
        """Return the paths that came, went or were replaced since a tree, if this one was merged
        right on top of it; otherwise None."""
        return next((paths for tree, paths in self._changes if tree() is below), None)

    def has_below(self, directory: str) -> bool:
        """Whether anything is below a directory, which no layer need name."""
        prefix = directory + "/"
        at = bisect_left(self._sorted, prefix)
        return at < len(self._sorted) and self._sorted[at].startswith(prefix)

    def get(self, path: str) -> Located | None:
        """Return what is at exactly this path; no link is followed."""
        return self.nodes.get(path)

    def resolve(self, path: str) -> Located | None:
        """Return what `path` leads to with links followed; links never leave the root."""
        real = self.real_path(path)
        return None if real is None else self.nodes.get(real)

    def real_path(self, path: str) -> str | None:
        """Return the path that `path` leads to with links followed; None for a loop of links."""
        return self._parents.target(path)

    @cached_property
    def _parents(self) -> Parents:
        return Parents(self.nodes)

    def under(self, directory: str) -> list[Located]:
        """Return everything below a directory, sorted by path."""
        return [self.nodes[path] for path in _below(self._sorted, directory.rstrip("/"))]

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.nodes)

    def __iter__(self) -> Iterator[Located]:
        return (self.nodes[path] for path in self._sorted)

    def __len__(self) -> int:
        return len(self.nodes)


def _below(ordered: Sequence[str], directory: str) -> Sequence[str]:
    first = bisect_left(ordered, directory + "/")
    return ordered[first : bisect_left(ordered, directory + "0", lo=first)]  # "0" follows "/"


def _apply(
    nodes: dict[str, Located],
    entries: Sequence[Entry],
    number: int,
    ordered: Sequence[str] | None,
) -> set[str]:
    """Put a layer on top of `nodes`; returns every path that came, went or was replaced.

    `ordered` are the paths of `nodes`, sorted, where somebody has them.
    """
    parents = Parents(nodes)
    paths = [entry.path for entry in entries]
    if _adds_only(nodes, parents, entries, paths):
        nodes.update(zip(paths, map(_locate, zip(entries, repeat(number))), strict=True))
        return set(paths)
    removed: set[str] = set()
    emptied: set[str] = set()
    for entry in entries:
        kind = entry.type
        if kind == DIRECTORY:
            continue
        if kind == WHITEOUT:
            removed.add(parents.real(entry.path))
        elif kind == OPAQUE:
            real = follow(nodes, entry.path)
            emptied.add(entry.path if real is None else real)
        else:
            # Something else in place of a directory hides all that was below it.
            path = parents.real(entry.path)
            lower = nodes.get(path)
            if lower is not None and lower.entry.type == DIRECTORY:
                emptied.add(path)
    changed: set[str] = set()
    if removed or emptied:
        changed |= _remove(nodes, removed, emptied, ordered)
        parents.forget()
    for entry in entries:
        kind = entry.type
        if kind in (WHITEOUT, OPAQUE):
            continue
        path = parents.real(entry.path)
        if path != entry.path:
            entry = entry._replace(path=path)
        if kind == HARDLINK and not entry.sha256:
            lower = nodes.get(entry.link)
            if lower is not None:
                source = lower.entry
                entry = entry._replace(size=source.size, sha256=source.sha256)
        before = nodes.get(path)
        if kind == SYMLINK or (before is not None and before.entry.type == SYMLINK):
            parents.forget()
        nodes[path] = Located(entry, number)
        changed.add(path)
    return changed


def _adds_only(
    nodes: Mapping[str, Located],
    parents: Parents,
    entries: Sequence[Entry],
    paths: Sequence[str],
) -> bool:
    """Whether a layer takes nothing away, and neither brings links nor goes through any.

    That is true of nearly all layers and entries, which are merged at once then.
    """
    if not {entry.type for entry in entries} <= {FILE, DIRECTORY}:
        return False
    if any(parents.real(f"{one}/x") != f"{one}/x" for one in {p.rpartition("/")[0] for p in paths}):
        return False
    for entry in entries if nodes else ():
        before = nodes.get(entry.path)
        if before is not None and before.entry.type != FILE and before.entry.type != entry.type:
            return False
    return True


def _remove(
    nodes: dict[str, Located],
    removed: set[str],
    emptied: set[str],
    ordered: Sequence[str] | None,
) -> set[str]:
    gone = set()
    below = set(emptied)
    for path in removed:
        found = nodes.pop(path, None)
        gone.add(path)
        if found is None or found.entry.type == DIRECTORY:
            below.add(path)
    # The root itself can be opaque: its marker's path is "".
    if "" in below:
        inside = list(nodes)
    elif ordered is not None:
        inside = [path for one in below for path in _below(ordered, one)]
    else:
        inside = _inside(nodes, below) if below else []
    for path in inside:
        nodes.pop(path, None)  # with `ordered`, one directory can be below another
    return gone.union(inside)


def _inside(nodes: Mapping[str, Located], directories: set[str]) -> list[str]:
    """Return the paths below any of the directories."""
    # Of every directory, whether it is one of these or below one; most files share theirs.
    known: dict[str, bool] = {"": False}

    def judge(directory: str) -> bool:
        above = directory
        while (answer := known.get(above)) is None:
            if above in directories:
                answer = True
                break
            above = above.rpartition("/")[0]
        known[directory] = answer
        return answer

    return [path for path in nodes if judge(path.rpartition("/")[0])]

"""Where paths lead in a tree with symbolic links; they never leave its root."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipeline.oci.index import SYMLINK

if TYPE_CHECKING:
    from pipeline.oci.tree import Located

_MAX_LINKS = 40  # as Linux: more is a loop
_UNUSUAL = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")  # an empty part, "." or ".."


def follow(nodes: Mapping[str, Located], path: str) -> str | None:
    """Resolve every link of `path`, the last part too, as a chroot would; None for a loop."""
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


class Parents:
    """Where the parents of paths lead in a tree as it stands; remembers the answers."""

    def __init__(self, nodes: Mapping[str, Located]):
        self._nodes = nodes
        self._known: dict[str, str] = {}
        self._loops: set[str] = set()

    def real(self, path: str) -> str:
        """Return `path` with the links of its parent followed, but not of its last part.

        A parent that is a loop of links leads nowhere and is left as it is.
        """
        cut = path.rfind("/")
        if cut <= 0:
            return path
        parent = path[:cut]
        real = self._known.get(parent)
        if real is None:
            real = self._find(parent)
        return path if real == parent else _join(real, path[cut + 1 :])

    def target(self, path: str) -> str | None:
        """Return what `follow` returns, mostly without following again what is known."""
        if _UNUSUAL.search(path) or self._loops:
            return follow(self._nodes, path)
        here = self.real(path)
        found = self._nodes.get(here)
        if self._loops or (found is not None and found.entry.type == SYMLINK):
            return follow(self._nodes, path)
        return here

    def _find(self, directory: str) -> str:
        pending = []
        while directory and directory not in self._known:
            pending.append(directory)
            directory = directory.rpartition("/")[0]
        real = self._known[directory] if directory else ""
        for one in reversed(pending):
            real = _join(real, one.rpartition("/")[2])
            found = self._nodes.get(real)
            if found is not None and found.entry.type == SYMLINK:
                followed = follow(self._nodes, one)
                if followed is None:
                    self._loops.add(one)
                real = one if followed is None else followed
            self._known[one] = real
        return real

    def forget(self) -> None:
        """Forget all: a link came or went."""
        self._known.clear()


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name

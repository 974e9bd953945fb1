"""Who owns a few files: asked of the RECORDs' paths alone, for those who change an image.

`Ownership` holds every row against every file, as an audit must; a stage asks for some paths only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.inventory.distributions import Distribution, Inventory
from pipeline.inventory.ownership import claimed_path
from pipeline.oci.index import SYMLINK
from pipeline.oci.tree import Located, Tree
from pipeline.oci.view import ImageView

RowMemo = dict[tuple[str, str], Mapping[str, str]]
"""Rows of RECORDs by site-packages and the RECORD's sha256: image path -> the row's own path."""

_Rows = tuple[Distribution, Mapping[str, str]]


@dataclass(frozen=True)
class Owners:
    """The owners of an image's files. `memo` keeps what was read of RECORDs, for other images.

    A RECORD that cannot be read owns nothing, as for an audit, which says so.
    """

    view: ImageView
    inventory: Inventory
    memo: RowMemo = field(default_factory=dict, compare=False)

    def of(self, path: str) -> Iterator[tuple[Distribution, str]]:
        """Yield (distribution, row of its RECORD) of all that claim the file at a real path."""
        first, shared = self._by_path
        for name in self._names(path):
            if name in shared:
                yield from ((one, rows[name]) for one, rows in shared[name])
            elif name in first:
                one, rows = first[name]
                yield one, rows[name]

    def files(self, distribution: Distribution) -> list[str]:
        """Return the image paths that the RECORD of a distribution names, in its order."""
        return [path for one, rows in self._rows if one is distribution for path in rows]

    def _names(self, path: str) -> list[str]:
        """Return a path and all others that lead to it through links."""
        names = [path]
        for name in names:  # it grows: a link can lie below another one
            inside = name
            while inside:
                for link in self._links.get(inside, ()):
                    other = link + name[len(inside) :]
                    if other not in names:
                        names.append(other)
                inside = inside.rpartition("/")[0]
        return names

    @cached_property
    def _links(self) -> Mapping[str, list[str]]:
        """Links by the real path that they lead to."""
        tree = self.view.tree
        links: dict[str, list[str]] = {}
        for path in tree.select(_is_link):
            real = tree.real_path(path)
            if real is not None and real != path:
                links.setdefault(real, []).append(path)
        return links

    @cached_property
    def _by_path(self) -> tuple[Mapping[str, _Rows], Mapping[str, list[_Rows]]]:
        """What names a path first; and all, for those that several name."""
        first: dict[str, _Rows] = {}
        shared: dict[str, list[_Rows]] = {}
        for one in self._rows:
            for path in first.keys() & one[1].keys():
                shared.setdefault(path, [first[path]]).append(one)
            first |= dict.fromkeys(one[1].keys() - shared.keys(), one)
        return first, shared

    @cached_property
    def _rows(self) -> list[_Rows]:
        found = _records(self.inventory, self.view.tree)
        new = {
            one.path: node for one, node in found if (one.site, node.entry.sha256) not in self.memo
        }
        paths = [node.entry.path for node in new.values()]
        contents = self.view.read_many(paths) if paths else {}
        rows = []
        for one, node in found:
            key = (one.site, node.entry.sha256)
            if key not in self.memo:
                self.memo[key] = _rows(one.site, contents[node.entry.path])
            rows.append((one, self.memo[key]))
        return rows


def _records(inventory: Inventory, tree: Tree) -> list[tuple[Distribution, Located]]:
    found = [(one, tree.resolve(f"{one.path}/RECORD")) for one in inventory.distributions]
    return [(one, node) for one, node in found if node is not None and node.entry.has_content]


def _rows(site: str, record: bytes) -> Mapping[str, str]:
    try:
        table = csv.reader(io.StringIO(record.decode("utf-8"), newline=""), strict=True)
        names = [row[0] for row in table if row]
    except (UnicodeDecodeError, csv.Error):
        return {}
    return {path: name for name in names if (path := claimed_path(site, name)) is not None}


def _is_link(node: Located) -> bool:
    return node.entry.type == SYMLINK

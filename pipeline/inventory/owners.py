"""Who owns a few files: asked of the RECORDs' paths alone, for those who change an image.

`Ownership` holds every row against every file, as an audit must; a stage asks for some paths only.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.inventory.distributions import Distribution, Inventory
from pipeline.inventory.ownership import claimed_path
from pipeline.oci.index import SYMLINK
from pipeline.oci.tree import Located, Tree
from pipeline.oci.view import ImageView


@dataclass
class RowMemo:
    """RECORDs by their sha256, and their rows by that and site-packages: image path -> the row's
    own path."""

    contents: dict[str, bytes] = field(default_factory=dict)
    links: tuple[Tree, Mapping[str, list[str]]] | None = None  # of the tree looked at last
    rows: dict[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Owners:
    """The owners of an image's files. `memo` keeps what was read of RECORDs, for other images.

    A RECORD that cannot be read owns nothing, as for an audit, which says so.
    """

    view: ImageView
    inventory: Inventory
    memo: RowMemo = field(default_factory=RowMemo, compare=False)
    _linked: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def of(self, path: str) -> Iterator[tuple[Distribution, str]]:
        """Yield (distribution, row of its RECORD) of all that claim the file at a real path.

        Only RECORDs that mention its name are parsed: of many files, `of_each` is cheaper.
        """
        for name in self._names(path):
            base = name.rpartition("/")[2].encode("utf-8", "surrogateescape")
            for one, record in self._records:
                # A quote is doubled in CSV.
                if b'"' in base or base in self.memo.contents[record]:
                    rows = self._rows_of(one, record)
                    if name in rows:
                        yield one, rows[name]

    def of_each(self, paths: Iterable[str]) -> Iterator[tuple[str, Distribution]]:
        """Yield (path, distribution) of all that claim the files at some real paths."""
        for path in paths:
            first, shared = self._by_path
            for name in self._names(path):
                if name in shared:
                    yield from ((path, one) for one in shared[name])
                elif name in first:
                    yield path, first[name]

    def files(self, distribution: Distribution) -> list[str]:
        """Return the image paths that the RECORD of a distribution names, in its order."""
        return [
            path
            for one, record in self._records
            if one is distribution
            for path in self._rows_of(one, record)
        ]

    def _names(self, path: str) -> list[str]:
        """Return a path and all others that lead to it through links."""
        names = [path]
        if path not in self._links and not self._is_linked(path.rpartition("/")[0]):
            return names
        for name in names:  # it grows: a link can lie below another one
            inside = name
            while inside:
                for link in self._links.get(inside, ()):
                    other = link + name[len(inside) :]
                    if other not in names:
                        names.append(other)
                inside = inside.rpartition("/")[0]
        return names

    def _is_linked(self, directory: str) -> bool:
        """Whether a link leads to a directory, or to one that it lies in."""
        known = self._linked.get(directory)
        if known is None:
            above = directory.rpartition("/")[0]
            known = directory in self._links or (bool(above) and self._is_linked(above))
            self._linked[directory] = known
        return known

    @cached_property
    def _links(self) -> Mapping[str, list[str]]:
        """Links by the real path that they lead to: a lower tree's, where none has changed."""
        tree = self.view.tree
        if self.memo.links and _has_the_links_of(self.memo.links[0], tree):
            self.memo.links = tree, self.memo.links[1]
            return self.memo.links[1]
        links: dict[str, list[str]] = {}
        for path in tree.select(_is_link):
            real = tree.real_path(path)
            if real is not None and real != path:
                links.setdefault(real, []).append(path)
        self.memo.links = tree, links
        return links

    @cached_property
    def _by_path(self) -> tuple[Mapping[str, Distribution], Mapping[str, list[Distribution]]]:
        """What names a path first; and all, for those that several name."""
        first: dict[str, Distribution] = {}
        shared: dict[str, list[Distribution]] = {}
        for one, record in self._records:
            paths = self._rows_of(one, record).keys()
            for path in first.keys() & paths:
                shared.setdefault(path, [first[path]]).append(one)
            first |= dict.fromkeys(paths - shared.keys(), one)
        return first, shared

    def _rows_of(self, distribution: Distribution, record: str) -> Mapping[str, str]:
        key = (distribution.site, record)
        if key not in self.memo.rows:
            self.memo.rows[key] = _rows(distribution.site, self.memo.contents[record])
        return self.memo.rows[key]

    @cached_property
    def _records(self) -> list[tuple[Distribution, str]]:
        """Distributions, each with the sha256 of its RECORD, all of which are in `memo` then."""
        tree, contents = self.view.tree, self.memo.contents
        found = [(one, tree.resolve(f"{one.path}/RECORD")) for one in self.inventory.distributions]
        records = [(one, node.entry) for one, node in found if node and node.entry.has_content]
        new = {entry.path: entry.sha256 for _, entry in records if entry.sha256 not in contents}
        read = self.view.read_many(list(new)) if new else {}
        contents.update((new[path], data) for path, data in read.items())
        return [(one, entry.sha256) for one, entry in records]


def _rows(site: str, record: bytes) -> Mapping[str, str]:
    try:
        table = csv.reader(io.StringIO(record.decode("utf-8"), newline=""), strict=True)
        names = [row[0] for row in table if row]
    except (UnicodeDecodeError, csv.Error):
        return {}
    return {path: name for name in names if (path := claimed_path(site, name)) is not None}


def _has_the_links_of(below: Tree, tree: Tree) -> bool:
    """Whether a tree was made of another one by layers that touch no link."""
    if tree is below:
        return True
    changed = tree.changed_since(below)
    return changed is not None and not any(
        node.entry.type == SYMLINK
        for path in changed
        for node in (below.nodes.get(path), tree.nodes.get(path))
        if node is not None
    )


def _is_link(node: Located) -> bool:
    return node.entry.type == SYMLINK

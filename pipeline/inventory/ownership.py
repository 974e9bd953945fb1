"""Who owns a file: paths of the image, each with the distributions whose RECORD names it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pipeline.inventory.distributions import Distribution, Inventory
from pipeline.inventory.metadata import RecordRow
from pipeline.oci.tree import Located, Tree


class Claim(NamedTuple):
    """A RECORD row and the file that it stands for; `located` is None when nothing is there."""

    distribution: Distribution
    row: RecordRow
    path: str
    located: Located | None


def claimed_path(site: str, row: str) -> str | None:
    """Return the path from the image root that a RECORD row names, None when it leaves the root.

    Rows are relative to site-packages ("../../../bin/x" is a script). An absolute row names a
    place outside of every installation scheme and counts as leaving it.
    """
    if row.startswith("/"):
        return None
    if "./" not in row and "//" not in row:  # true for nearly all rows
        return f"{site}/{row}"
    path = posixpath.normpath(f"{site}/{row}")
    return None if path == ".." or path.startswith("../") else path


@dataclass(frozen=True)
class Ownership:
    """All claims of all RECORDs of an inventory on the files of a tree."""

    inventory: Inventory
    tree: Tree

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every row that stays in the image, in the order of the inventory and its RECORDs."""
        return tuple(claim for claim in self._rows if isinstance(claim, Claim))

    @cached_property
    def by_distribution(self) -> Mapping[str, tuple[Claim, ...]]:
        """Claims by the normalised name of the distribution that makes them."""
        groups: dict[str, list[Claim]] = {}
        for claim in self.claims:
            groups.setdefault(claim.distribution.name, []).append(claim)
        return {name: tuple(claims) for name, claims in groups.items()}

    @cached_property
    def outside(self) -> tuple[tuple[Distribution, str], ...]:
        """Rows that leave the image root. What they name is never looked at."""
        return tuple(row for row in self._rows if not isinstance(row, Claim))

    @cached_property
    def owners(self) -> Mapping[str, tuple[Claim, ...]]:
        """All claims by the real path of the file. For one path, `claims_on` is cheaper."""
        return {path: (claim,) for path, claim in self._first.items()} | dict(self.shared)

    def claims_on(self, path: str) -> tuple[Claim, ...]:
        """Return every claim on the file at a real path."""
        if path in self.shared:
            return self.shared[path]
        return (self._first[path],) if path in self._first else ()

    def is_owned(self, path: str) -> bool:
        """Whether some RECORD names the file at a real path."""
        return path in self._first

    @cached_property
    def shared(self) -> Mapping[str, tuple[Claim, ...]]:
        """Claims on files that have several, by real path."""
        shared: dict[str, tuple[Claim, ...]] = {}
        for claim in self.claims:
            first = self._first[claim.path]
            if first is not claim:
                shared[claim.path] = (*shared.get(claim.path, (first,)), claim)
        return shared

    @cached_property
    def _first(self) -> Mapping[str, Claim]:
        first: dict[str, Claim] = {}
        for claim in self.claims:
            first.setdefault(claim.path, claim)
        return first

    @cached_property
    def _rows(self) -> tuple[Claim | tuple[Distribution, str], ...]:
        return tuple(self._resolved())

    def _resolved(self) -> Iterator[Claim | tuple[Distribution, str]]:
        nodes = self.tree.nodes
        for distribution in self.inventory.distributions:
            site = distribution.site
            for row in distribution.record or ():
                path = claimed_path(site, row.path)
                if path is None:
                    yield distribution, row.path
                    continue
                located = nodes.get(path)
                if located is None or not located.entry.has_content:
                    path = self.tree.real_path(path) or path
                    located = nodes.get(path)
                    if located is not None and not located.entry.has_content:
                        located = None
                yield Claim(distribution, row, path, located)

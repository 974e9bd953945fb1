"""Who owns a file: paths of the image, each with the distributions whose RECORD names it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import eq
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


class _Claims(NamedTuple):
    """What the RECORD of one distribution claims. `plain` is whether every path is what its row
    says: where links were followed, the links of another tree may lead elsewhere."""

    distribution: Distribution
    claims: tuple[Claim, ...]
    outside: tuple[str, ...]
    plain: bool


@dataclass
class ClaimMemo:
    """Claims of distributions, by their object's id (which the value keeps alive), from trees that
    were looked at before. They are believed as long as all of their files are the same."""

    known: dict[int, _Claims] = field(default_factory=dict)


@dataclass(frozen=True)
class Ownership:
    """All claims of all RECORDs of an inventory on the files of a tree."""

    inventory: Inventory
    tree: Tree
    memo: ClaimMemo = field(default_factory=ClaimMemo, compare=False)

    @cached_property
    def by_record(self) -> tuple[tuple[Claim, ...], ...]:
        """The claims of each distribution, in the inventory's order. Where nothing has changed,
        these are the objects that an ownership of the same memo had before."""
        return tuple(one.claims for one in self._resolved)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every row that stays in the image, in the order of the inventory and its RECORDs."""
        return tuple(chain.from_iterable(self.by_record))

    def claims_of(self, name: str) -> tuple[Claim, ...]:
        """Return the claims of the distributions of a normalised name."""
        found = [one.claims for one in self._resolved if one.distribution.name == name]
        return tuple(chain.from_iterable(found))

    @cached_property
    def outside(self) -> tuple[tuple[Distribution, str], ...]:
        """Rows that leave the image root. What they name is never looked at."""
        return tuple((one.distribution, row) for one in self._resolved for row in one.outside)

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
        if len(self._first) == len(self.claims):
            return shared
        for claim in self.claims:
            first = self._first[claim.path]
            if first is not claim:
                shared[claim.path] = (*shared.get(claim.path, (first,)), claim)
        return shared

    @cached_property
    def _first(self) -> Mapping[str, Claim]:
        # From the last to the first, so that the first one stays.
        return {claim.path: claim for claim in reversed(self.claims)}

    @cached_property
    def _resolved(self) -> tuple[_Claims, ...]:
        return tuple([self._claims(one) for one in self.inventory.distributions])

    def _claims(self, distribution: Distribution) -> _Claims:
        nodes = self.tree.nodes
        known = self.memo.known.get(id(distribution))
        if known is None or not known.plain or not _unchanged(known.claims, nodes):
            known = self.memo.known[id(distribution)] = self._resolve(distribution)
        return known

    def _resolve(self, distribution: Distribution) -> _Claims:
        nodes, site = self.tree.nodes, distribution.site
        claims: list[Claim] = []
        outside: list[str] = []
        plain = True
        for row in distribution.record or ():
            path = claimed_path(site, row.path)
            if path is None:
                outside.append(row.path)
                continue
            located = nodes.get(path)
            if located is None or not located.entry.has_content:
                plain = False
                path = self.tree.real_path(path) or path
                located = nodes.get(path)
                if located is not None and not located.entry.has_content:
                    located = None
            claims.append(Claim(distribution, row, path, located))
        return _Claims(distribution, tuple(claims), tuple(outside), plain)


def _unchanged(claims: tuple[Claim, ...], nodes: Mapping[str, Located]) -> bool:
    """Whether every file of claims is as it was, in the same layer."""
    paths, places = [one.path for one in claims], [one.located for one in claims]
    return all(map(eq, map(nodes.get, paths), places))

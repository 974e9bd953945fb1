"""Who owns a file: paths of the image, each with the distributions whose RECORD names it."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
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
class _Resolved:
    """All claims on the files of a tree. Of `first` and `shared`: see Ownership."""

    tree: Tree
    by_distribution: Mapping[int, _Claims]  # by the object's id, which the value keeps alive
    claims: tuple[_Claims, ...]
    first: dict[str, Claim]
    shared: dict[str, tuple[Claim, ...]]
    unowned: Set[str]

    def on(self, path: str) -> tuple[Claim, ...]:
        if path in self.shared:
            return self.shared[path]
        return (self.first[path],) if path in self.first else ()


# A line's stages can stand beside each other: v2 and v3 on v1.
_KEPT = 3


@dataclass
class ClaimMemo:
    """The claims on the trees that were looked at last, the newest first: those on a tree on top of
    one of them are the same, but for what the layers between them touch."""

    last: tuple[_Resolved, ...] = ()

    def remember(self, found: _Resolved) -> None:
        """Keep the claims on one more tree, and forget those that are too long ago."""
        self.last = (found, *(one for one in self.last if one.tree is not found.tree))[:_KEPT]


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
        return tuple(one.claims for one in self._resolved.claims)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every row that stays in the image, in the order of the inventory and its RECORDs."""
        return tuple(chain.from_iterable(self.by_record))

    def claims_of(self, name: str) -> tuple[Claim, ...]:
        """Return the claims of the distributions of a normalised name."""
        found = [one.claims for one in self._resolved.claims if one.distribution.name == name]
        return found[0] if len(found) == 1 else tuple(chain.from_iterable(found))

    @cached_property
    def outside(self) -> tuple[tuple[Distribution, str], ...]:
        """Rows that leave the image root. What they name is never looked at."""
        return tuple(
            (one.distribution, row) for one in self._resolved.claims for row in one.outside
        )

    @cached_property
    def owners(self) -> Mapping[str, tuple[Claim, ...]]:
        """All claims by the real path of the file. For one path, `claims_on` is cheaper."""
        first = {path: (claim,) for path, claim in self._resolved.first.items()}
        return first | dict(self.shared)

    def claims_on(self, path: str) -> tuple[Claim, ...]:
        """Return every claim on the file at a real path."""
        return self._resolved.on(path)

    def is_owned(self, path: str) -> bool:
        """Whether some RECORD names the file at a real path."""
        return path in self._resolved.first

    @property
    def unowned(self) -> Set[str]:
        """Paths of the tree, of whatever type, that no RECORD names."""
        return self._resolved.unowned

    @property
    def shared(self) -> Mapping[str, tuple[Claim, ...]]:
        """Claims on files that have several, by real path."""
        return self._resolved.shared

    @cached_property
    def _resolved(self) -> _Resolved:
        found = next(self._found(), None) or self._from_nothing()
        self.memo.remember(found)
        return found

    def _found(self) -> Iterator[_Resolved]:
        """Yield what follows from the claims on a tree that this one is, or stands on."""
        for last in self.memo.last:
            changed = frozenset() if last.tree is self.tree else self.tree.changed_since(last.tree)
            if changed is not None:
                yield self._on_top(last, changed)

    def _from_nothing(self) -> _Resolved:
        groups = tuple([self._resolve(one) for one in self.inventory.distributions])
        claims = list(chain.from_iterable(one.claims for one in groups))
        # From the last to the first, so that the first one stays.
        first = {claim.path: claim for claim in reversed(claims)}
        shared: dict[str, tuple[Claim, ...]] = {}
        if len(first) < len(claims):
            for claim in claims:
                before = first[claim.path]
                if before is not claim:
                    shared[claim.path] = (*shared.get(claim.path, (before,)), claim)
        unowned = self.tree.nodes.keys() - first.keys()
        return _Resolved(self.tree, _by_id(groups), groups, first, shared, unowned)

    def _on_top(self, last: _Resolved, changed: Collection[str]) -> _Resolved:
        """Resolve anew what is of another distribution, or whose files a layer has touched."""
        touched = {id(claim.distribution) for path in changed for claim in last.on(path)}
        kept: dict[int, _Claims] = {}
        groups: list[_Claims] = []
        come: list[_Claims] = []
        for one in self.inventory.distributions:
            known = last.by_distribution.get(id(one))
            if known is None or not known.plain or id(one) in touched:
                known = self._resolve(one)
                come.append(known)
            else:
                kept[id(one)] = known
            groups.append(known)
        gone = [one for key, one in last.by_distribution.items() if key not in kept]
        first, shared = dict(last.first), dict(last.shared)
        news: dict[str, list[Claim]] = {}
        for claim in chain.from_iterable(one.claims for one in come):
            news.setdefault(claim.path, []).append(claim)
        order = {id(one): number for number, one in enumerate(self.inventory.distributions)}
        disputed = news.keys() | {claim.path for one in gone for claim in one.claims}
        for path in disputed:
            rivals = news.get(path, [])
            before = last.first.get(path)
            if path in last.shared or (before and id(before.distribution) in kept):
                rivals += (one for one in last.on(path) if id(one.distribution) in kept)
                rivals.sort(key=lambda claim: order[id(claim.distribution)])
            if not rivals:
                first.pop(path, None)
            else:
                first[path] = rivals[0]
            if len(rivals) > 1:
                shared[path] = tuple(rivals)
            elif path in shared:
                del shared[path]
        unsure = disputed | set(changed)
        unowned = last.unowned - unsure
        unowned |= {path for path in unsure if path in self.tree.nodes and path not in first}
        return _Resolved(self.tree, _by_id(groups), tuple(groups), first, shared, unowned)

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


def _by_id(groups: Iterable[_Claims]) -> Mapping[int, _Claims]:
    return {id(one.distribution): one for one in groups}

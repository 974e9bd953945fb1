"""Which files differ between two trees, and whose they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.drift.changes import ADDED, FILES, REMOVED, Files, LoneFile
from pipeline.drift.sides import Side
from pipeline.inventory.bytecode import CACHE
from pipeline.inventory.ownership import claimed_path
from pipeline.oci.index import DIRECTORY
from pipeline.oci.tree import Located, Tree

STAGES = "usr/share/sm121-chain/stages/"
# Files of a dist-info that differ whenever anything of the distribution does, or by installer.
_BESIDE = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
_DPKG = "var/lib/dpkg/"


class Difference(NamedTuple):
    """A path that is not the same on both sides; None where it is not there."""

    path: str
    before: Located | None
    after: Located | None

    @property
    def direction(self) -> str:
        """ADDED, REMOVED or FILES."""
        if self.before is None:
            return ADDED
        return REMOVED if self.after is None else FILES


def differences(before: Tree, after: Tree) -> list[Difference]:
    """Return every path that is something else on the other side, sorted.

    Directories do not count, nor do times, owners and modes: an unpacked tree has its own. Nor do
    compiled files in `__pycache__`: whoever runs the image makes them.
    """
    old, new = before.nodes, after.nodes
    # Where the sides share layers nearly all places are the same objects.
    found = [
        Difference(path, was, now)
        for path, was in old.items()
        if (now := new.get(path)) is not was and _differ(was, now)
    ]
    found += [
        Difference(path, None, now)
        for path, now in new.items()
        if path not in old and now.entry.type != DIRECTORY
    ]
    return sorted(one for one in found if CACHE not in f"/{one.path}")


def _differ(was: Located, now: Located | None) -> bool:
    one = was.entry
    if now is None:
        return one.type != DIRECTORY
    other = now.entry
    if one.has_content and other.has_content:
        return (one.sha256, one.size) != (other.sha256, other.size)
    return (one.type, one.link) != (other.type, other.link)


@dataclass
class Group:
    """The differences of one distribution or package."""

    found: list[Difference] = field(default_factory=list)

    @property
    def files(self) -> Files:
        """The paths by what happened to them; those that always differ only where they are all."""
        named = [one for one in self.found if one.path.rpartition("/")[2] not in _BESIDE]
        return Files(
            changed=tuple(one.path for one in named if one.direction == FILES),
            added=tuple(one.path for one in named if one.direction == ADDED),
            removed=tuple(one.path for one in named if one.direction == REMOVED),
        )

    @property
    def layer(self) -> int:
        """The number of the highest layer that wrote any of them, -1 where all are removed."""
        return max((one.after.layer for one in self.found if one.after is not None), default=-1)


@dataclass(frozen=True)
class Differences:
    """All differences by owner: distributions by name, Debian packages by name, nobody."""

    distributions: Mapping[str, Group]
    packages: Mapping[str, Group]
    lone: tuple[Difference, ...]
    found: tuple[Difference, ...] = ()


def owned_differences(before: Side, after: Side) -> Differences:
    """Return what differs between two sides, by whom it belongs to."""
    if before.view is None or after.view is None:
        return Differences({}, {}, ())
    found = differences(before.tree, after.tree)
    owners = _owners({one.path for one in found}, after, before)
    distributions: dict[str, Group] = {}
    packages: dict[str, Group] = {}
    lone: list[Difference] = []
    for one in found:
        if name := owners.get(one.path, ""):
            distributions.setdefault(name, Group()).found.append(one)
        elif one.path.startswith((STAGES, _DPKG)):
            continue
        elif name := _package(one.path, (after, before)):
            packages.setdefault(name, Group()).found.append(one)
        else:
            lone.append(one)
    return Differences(distributions, packages, tuple(lone), tuple(found))


def _owners(paths: Collection[str], *sides: Side) -> dict[str, str]:
    """Return the distribution of each path that has one: by RECORD, or for lying in its dist-info,
    or in the source tree that an editable installation imports.

    The first side's word counts. A whole ownership of both would cost more than all the rest.
    """
    owners: dict[str, str] = {}
    infos = {path: head for path in paths if "-info/" in (head := path.rpartition("/")[0] + "/")}
    seen: set[int] = set()
    below: dict[str, set[str]] = {}  # the paths from each site-packages directory
    for side in sides:
        for one in side.inventory.distributions:
            if id(one) in seen:  # on both sides the same, so its files are
                continue
            seen.add(id(one))
            inside = below.get(one.site)
            if inside is None:
                start = f"{one.site}/"
                inside = {path[len(start) :] for path in paths if path.startswith(start)}
                below[one.site] = inside
            for row in one.record or ():
                if row.path in inside:
                    owners.setdefault(f"{one.site}/{row.path}", one.name)
                elif "./" in row.path or "//" in row.path:  # a script, mostly: few rows
                    path = claimed_path(one.site, row.path)
                    real = None if path is None else side.tree.real_path(path) or path
                    if real is not None and real in paths:
                        owners.setdefault(real, one.name)
            for path, head in infos.items():
                if head.startswith(f"{one.path}/"):
                    owners.setdefault(path, one.name)
            if one.origin is not None and (source := one.origin.directory):
                for path in paths:
                    if path.startswith(f"{source}/"):
                        owners.setdefault(path, one.name)
    return owners


def _package(path: str, sides: Iterable[Side]) -> str:
    for side in sides:
        if path in side.debian_owners:
            return side.debian_owners[path]
    return ""


def owner_of(path: str, side: Side) -> str:
    """Return the distribution, or else the Debian package, of a file; "" for nobody's."""
    return _owners({path}, side).get(path) or _package(path, [side])


def lone_files(found: Iterable[Difference], after: Side) -> tuple[LoneFile, ...]:
    """Return what belongs to nobody, with the layer that wrote it."""
    return tuple(
        LoneFile(
            one.path,
            one.direction,
            after.layer(one.after.layer) if one.after is not None else None,
        )
        for one in found
    )

"""Shared libraries of which the loader takes another copy than before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.drift.changes import LIBRARY, MOVED, Change, Setting
from pipeline.drift.files import Difference, owner_of
from pipeline.drift.packages import BINARY, FAMILY
from pipeline.drift.sides import Side
from pipeline.inventory.facts import read_binaries
from pipeline.inventory.families import family_of, talks_to_gpu
from pipeline.inventory.loader import Loader
from pipeline.oci.binary import ELF

_ELF = ELF.hex()
_CONFIGURATION = ("etc/ld.so.",)


def libraries(
    before: Side, after: Side, found: Sequence[Difference], settings: Sequence[Setting]
) -> Iterator[Change]:
    """Yield the libraries, by SONAME, whose taken copies lie elsewhere and are of somebody else.

    A library that came, went, or moved with its package is told by that package. Nothing is looked
    at where no binary, no configuration of the loader and no search path differs.
    """
    if before.view is None or after.view is None:
        return
    by_variable = any(one.key == "LD_LIBRARY_PATH" for one in settings)
    if not any(map(_matters, found)) and not by_variable:
        return
    (old, _), (new, users) = _taken(before), _taken(after)
    moved = {name: paths for name, paths in new.items() if old.get(name, paths) != paths}
    for name, paths in sorted(moved.items()):
        owners = {owner_of(path, after) for path in paths}
        if owners == {owner_of(path, before) for path in old[name]} and "" not in owners:
            continue
        gpu = [owner for owner in sorted(owners) if talks_to_gpu(owner)]
        yield Change(
            kind=LIBRARY,
            name=name,
            direction=MOVED,
            before=" and ".join(f"/{path}" for path in old[name]),
            after=" and ".join(f"/{path}" for path in paths),
            rank=FAMILY if gpu else BINARY,
            layer=after.layer(_doer(name, set(paths) - set(old[name]), found, by_variable, users)),
            family=family_of(gpu[0]) if gpu else "",
            gpu=bool(gpu),
        )


def _matters(one: Difference) -> bool:
    places = [place for place in (one.before, one.after) if place is not None]
    return one.path.startswith(_CONFIGURATION) or any(
        place.entry.start.startswith(_ELF) for place in places
    )


def _doer(
    name: str,
    gained: Collection[str],
    found: Sequence[Difference],
    by_variable: bool,
    users: Mapping[str, Collection[str]],
) -> int:
    """Return the number of the layer that made the loader take another copy, -1 for none that is
    known: a copy that is new itself, the loader's configuration, or who needs the library. A
    variable is of no layer."""
    written = {one.path: one.after.layer for one in found if one.after is not None}
    configured = [path for path in written if path.startswith(_CONFIGURATION)]
    needing = [] if by_variable else users.get(name, ())
    for paths in (gained, configured, needing):
        layers = [written[path] for path in paths if path in written]
        if layers:
            return max(layers)
    return -1


def _taken(side: Side) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, Collection[str]]]:
    """Return the files that somebody gets for a name, and the objects that need it, by the name."""
    assert side.view is not None
    loader = Loader(side.view, read_binaries(side.view, side.shared.cache))
    found = {name: set(paths) for name, paths in loader.taken.items()}
    for name in found:
        bare = loader.bare(name)
        if bare is not None:
            found[name].add(bare.path)
    return {name: tuple(sorted(paths)) for name, paths in found.items()}, loader.needed_by

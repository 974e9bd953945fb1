"""What a lock selects for each stage, and how two texts of it differ, in lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.lock.model import Lock, LockedWheel
from pipeline.progress import readable


def summary(lock: Lock, paths: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """For each base, a line for itself and for every stage that moves a pin, and its .debs."""
    for name, base in sorted(lock.bases.items()):
        shown: set[tuple[str, ...]] = set()
        for stage, path in paths.items():
            if tuple(path) in shown:
                continue
            shown.add(tuple(path))
            wheels = lock.select(name, path)
            yield f"{name} {stage}: {_amount(wheels)}"
            if path:
                yield from (f"  {line}" for line in moves(lock.select(name, path[:-1]), wheels))
        if base.debs:
            size = readable(sum(deb.size for deb in base.debs))
            yield f"{name}: {len(base.debs)} packages of Debian {base.suite}, {size}"


def _amount(wheels: Sequence[LockedWheel]) -> str:
    unknown = sum(wheel.size is None for wheel in wheels)
    size = readable(sum(wheel.size or 0 for wheel in wheels))
    more = f", and {unknown} of unknown size" if unknown else ""
    return f"{len(wheels)} distributions, {size}{more}"


def moves(before: Sequence[LockedWheel], after: Sequence[LockedWheel]) -> Iterator[str]:
    """One line for each distribution that is not the same in two selections."""
    old, new = ({wheel.name: wheel for wheel in wheels} for wheels in (before, after))
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            was, now = (side[name].version if name in side else "absent" for side in (old, new))
            yield f"{name} {was} -> {now}" if was != now else f"{name} {now}: another file"

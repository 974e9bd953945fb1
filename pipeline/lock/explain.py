"""Why a lock holds what it holds of one package: who wants it, what moves it, for what reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline.audit.requirements import Requirements, meets
from pipeline.errors import UsageError
from pipeline.expectations import expectation_params
from pipeline.lock.checks import StagePaths
from pipeline.lock.metadata import Metadata
from pipeline.lock.model import Lock, LockedDeb, LockedWheel, Override
from pipeline.steps.params import expectation_from


def explain(lock: Lock, name: str, paths: StagePaths, metadata: Metadata) -> list[str]:
    """Lines for people. `name` may also be a Debian package's.

    Raises:
        UsageError: the lock knows no such package.
    """
    wanted = canonicalize_name(name)
    lines = [
        line
        for base in sorted(lock.bases)
        for line in _base(lock, base, wanted, sorted({tuple(p) for p in paths.values()}), metadata)
    ]
    lines += [line for override in lock.overrides for line in _override(override, wanted)]
    for removal in lock.removals:
        if removal.distribution == wanted:
            lines.append(f"removed from {removal.base} by {removal.group}: {removal.why}")
    for text in lock.requirements:
        if canonicalize_name(Requirement(text).name) == wanted:
            lines.append(f"asked for by the lock itself: {text}")
    for known in lock.known:
        if wanted in (known.distribution, known.owner):
            lines.append(f"tolerated: {known.rule} of {known.path}: {known.why}")
    for base in lock.bases.values():
        lines += [_deb(deb, base.suite, base.packages) for deb in base.debs if deb.name == name]
    if not lines:
        raise UsageError(
            f"{lock.file}: no package '{name}'",
            hint="names are those of its [[packages]] and .debs",
        )
    return lines


def _base(
    lock: Lock, base: str, name: str, paths: Sequence[tuple[str, ...]], metadata: Metadata
) -> Iterator[str]:
    """Where each version comes in, on every path, and who wants it there."""
    inventory = dict(lock.bases[base].inventory)
    if name in inventory:
        yield f"{base}: the image holds {inventory[name]}"
    said = set()
    for path in sorted(paths, key=len):
        wheels = {wheel.name: wheel for wheel in lock.select(base, path)}
        before = {wheel.name: wheel for wheel in lock.select(base, path[:-1])} if path else {}
        now, old = wheels.get(name), before.get(name)
        if now == old or (path and (now, path[-1]) in said):
            continue
        said.add((now, path[-1] if path else ""))
        place = f"{base} {path[-1] if path else '(the base)'}"
        change = f"{old.version} -> " if old else ""
        yield f"{place}: {change}{now.version if now else 'absent'}"
        if now:
            yield f"  {now.filename}"
            yield f"  sha256 {now.sha256}, {now.size or 'unknown'} bytes"
            yield from _wanted_by(lock, base, path, tuple(wheels.values()), now, metadata)


def _wanted_by(
    lock: Lock,
    base: str,
    path: Sequence[str],
    wheels: Sequence[LockedWheel],
    wheel: LockedWheel,
    metadata: Metadata,
) -> Iterator[str]:
    seen = metadata.see(wheels)
    params = expectation_params(lock, lock.bases[base], path, wheels, (), "")
    judged = Requirements(seen.inventory, expectation_from(params, {}))
    for dependant, text, requirement in judged.active:
        if canonicalize_name(requirement.name) == wheel.name:
            fits = "" if meets(requirement, wheel.version) else " (not met)"
            yield f"  {dependant.name} {dependant.version} wants {text}{fits}"
    if seen.absent:
        absent = f"{len(seen.absent)} wheels are not here, run fetch --base {base}"
        yield f"  who else wants it is not known: {absent}"


def _override(override: Override, name: str) -> Iterator[str]:
    about = name == override.name
    named = [a for a in override.against if canonicalize_name(a.split(" ")[0]) == name]
    if not about and not named:
        return
    place = f"{override.base} {override.group or '(the base)'}"
    yield f"held in {place}: {override.requirement}, to be looked at again on {override.review}"
    for against in override.against if about else named:
        yield f"  against: {against}"
    yield f"  why: {override.why}"


def _deb(deb: LockedDeb, suite: str, packages: Sequence[str]) -> str:
    why = "asked for" if deb.name in packages else "essential, or what another one depends on"
    return f"Debian {suite}: {deb.name} {deb.version} ({why})\n  {deb.path}\n  sha256 {deb.sha256}"

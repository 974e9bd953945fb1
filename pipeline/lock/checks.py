"""What can be said against a lock that reads well: its ledger, its exceptions, its requirements.

Offline. Requirements are judged where the wheels are in the wheelhouse; where they are not, that is
said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.audit.report import INTENDED
from pipeline.audit.requirements import Requirements
from pipeline.expectations import expectation_params
from pipeline.lock.metadata import Metadata
from pipeline.lock.model import Lock, Override
from pipeline.lock.update import held
from pipeline.steps.params import expectation_from

#: For each stage, with `base` for the base itself, the groups that it selects, oldest first.
StagePaths = Mapping[str, Sequence[str]]


def check(lock: Lock, paths: StagePaths, metadata: Metadata, today: date) -> list[Finding]:
    """Every finding, sorted: what hurts first."""
    selections = sorted({(base, tuple(path)) for base in lock.bases for path in paths.values()})
    findings = {
        *_groups(lock, paths),
        *_ledger(lock, selections),
        *_reviews(lock, today),
        *_removals(lock, selections),
        *_known(lock),
    }
    for base, path in selections:
        findings |= {*_inputs(lock, base, path), *_requirements(lock, base, path, metadata)}
    for base in lock.bases:
        findings |= {*_unseen(lock, base, [p for b, p in selections if b == base], metadata)}
    return sorted(findings, key=Finding.sort_key)


def _groups(lock: Lock, paths: StagePaths) -> Iterator[Finding]:
    """A group that no stage selects moves nothing; one that the lock lacks cannot be selected."""
    used = {group for path in paths.values() for group in path}
    for group in sorted(set(lock.groups) - used):
        text = f"no stage selects the group {group}"
        yield Finding("group-unused", WARNING, group, text, fix="remove it, or the stage's typo")


def _ledger(lock: Lock, selections: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Finding]:
    """Each override is what the lock selects, and everybody it stands against is there."""
    stale: dict[tuple[Override, str], bool] = {}
    for base, path in selections:
        versions = dict(lock.bases[base].inventory)
        versions |= {wheel.name: wheel.version for wheel in lock.select(base, path)}
        for override in held(lock.overrides, base, path).values():
            found = versions.get(override.name, "absent")
            if found != override.version:
                where = f"{base} {' '.join(path) or 'without groups'}"
                problem = f"{override.requirement} is held, but {where} selects {found}"
                yield Finding("ledger-not-in-lock", ERROR, override.name, problem, fix="run lock")
            for wish in override.against:
                name, version = wish.split(" ")[:2]
                there = versions.get(canonicalize_name(name), "").partition("+")[0] == version
                stale[override, wish] = stale.get((override, wish), True) and not there
    for (override, wish), nowhere in stale.items():
        specifier = SpecifierSet(wish.partition(" wants ")[2])
        if nowhere:
            problem = f"'{wish}' is said of {override.requirement}, but no selection holds that"
            yield Finding("ledger-stale", WARNING, override.name, problem, fix="look again at it")
        elif specifier.contains(override.version, prereleases=True):
            problem = f"'{wish}' is said against {override.requirement}, which it allows"
            yield Finding(
                "ledger-stale", WARNING, override.name, problem, fix="remove the override"
            )


def _reviews(lock: Lock, today: date) -> Iterator[Finding]:
    for override in lock.overrides:
        if override.review <= today:
            text = f"{override.requirement} was to be looked at again on {override.review}"
            fix = "is it still needed? Then set a later day"
            yield Finding("ledger-review-due", WARNING, override.name, text, fix=fix)


def _removals(lock: Lock, selections: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Finding]:
    for removal in lock.removals:
        name = removal.distribution
        if name not in dict(lock.bases[removal.base].inventory):
            text = f"{name} is removed by {removal.group}, but {removal.base} does not hold it"
            yield Finding("removal-not-in-base", ERROR, name, text)
        for base, path in selections:
            taken = base == removal.base and removal.group in path
            if taken and name in {wheel.name for wheel in lock.select(base, path)}:
                text = f"{name} is removed by {removal.group}, and selected as well"
                yield Finding("removal-selected", ERROR, name, text)


def _known(lock: Lock) -> Iterator[Finding]:
    names = {package.name for package in lock.pylock.packages}
    for known in lock.known:
        for name in filter(None, (known.distribution, known.owner)):
            if canonicalize_name(name) not in names:
                text = f"{known.rule} is tolerated for {name}, which the lock does not hold"
                yield Finding("known-unused", WARNING, name, text, known.path, fix="remove it")


def _inputs(lock: Lock, base: str, path: Sequence[str]) -> Iterator[Finding]:
    """The lock's own requirements, on a base that is made from them."""
    if lock.bases[base].image:
        return
    versions = {wheel.name: wheel.version for wheel in lock.select(base, path)}
    overrides = held(lock.overrides, base, path)
    for text in lock.requirements:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name in overrides:
            continue
        found = versions.get(name)
        if found is None or not requirement.specifier.contains(found, prereleases=True):
            problem = f"the lock asks for {text}, and {base} holds {found or 'none'}"
            yield Finding("requirement-unsatisfied", ERROR, name, problem, fix="run lock")


def _requirements(
    lock: Lock, base: str, path: Sequence[str], metadata: Metadata
) -> Iterator[Finding]:
    """What the selected wheels want of each other. An image's other distributions are unknown."""
    if lock.bases[base].image:
        return
    wheels = lock.select(base, path)
    seen = metadata.see(wheels)
    if seen.absent:  # half an inventory would accuse the wrong ones
        return
    params = expectation_params(lock, lock.bases[base], path, wheels, (), "")
    judged = Requirements(seen.inventory, expectation_from(params, {}))
    for fault in judged.unsatisfied(frozenset()):
        wanted = f"{fault.dependant} wants {fault.requirement}, found {fault.found or 'none'}"
        if fault.kind == INTENDED:
            yield Finding(
                "requirement-unsatisfied", NOTE, fault.dependant, wanted, reason=fault.why
            )
        else:
            fix = "change the pin, or name it in the ledger (against)"
            yield Finding("requirement-unsatisfied", ERROR, fault.dependant, wanted, fix=fix)


def _unseen(
    lock: Lock, base: str, paths: Sequence[Sequence[str]], metadata: Metadata
) -> Iterator[Finding]:
    """That requirements were not judged, and why."""
    if lock.bases[base].image:
        text = "what the image's other distributions want is not known from the lock"
        yield Finding("not-checked", NOTE, base, f"{base}: {text}", fix="audit an image of it")
        return
    wheels = {wheel for path in paths for wheel in lock.select(base, path)}
    if absent := metadata.see(sorted(wheels)).absent:
        text = f"{base}: {len(absent)} of {len(wheels)} wheels are not here"
        problem = f"{text}, so what they want of each other is not known"
        yield Finding("not-checked", NOTE, base, problem, fix="run fetch")

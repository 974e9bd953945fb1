"""Which requirements of installed distributions an image does not meet, and whether that is meant.

Judged for the image's Python and platform (PEP 508 markers), never for this machine's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.audit.expectation import Expectation, LedgerEntry
from pipeline.audit.report import INHERITED, INTENDED, NEW, Unsatisfied
from pipeline.inventory.distributions import Distribution, Inventory, same_version

_MAX_TEXT = 4096  # characters; the longest of the chain has 300
# "torch 2.13.0 wants ==2.29.7": who, at which version, wants what.
_AGAINST = re.compile(r"(?P<who>\S+)(?: \S+)? wants (?P<what>.+)")


@lru_cache(maxsize=8192)
def parse_requirement(text: str) -> Requirement | None:
    """Parse a Requires-Dist; None for what is no requirement (PEP 508), or none of any sense."""
    if len(text) > _MAX_TEXT:
        return None
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError):  # brackets inside brackets
        return None


def meets(requirement: Requirement, version: str) -> bool:
    """Whether an installed version meets a requirement. Pre-releases that are there count."""
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return not requirement.specifier or str(requirement.specifier) == f"==={version}"


@dataclass(frozen=True)
class Wish:
    """What an installed distribution asks of another one; its text is the requirement's."""

    dependant: Distribution
    requirement: Requirement

    def accepts(self, version: str) -> bool:
        """Whether it is content with a version."""
        return meets(self.requirement, version)

    @property
    def is_exact(self) -> bool:
        """Whether it names one version, so that an installer has no choice."""
        return any(one.operator in ("==", "===") for one in self.requirement.specifier)

    def __str__(self) -> str:
        return f"{canonicalize_name(self.requirement.name)}{self.requirement.specifier}"


Wanted = tuple[tuple[str, Requirement], ...]


@dataclass(frozen=True)
class Requirements:
    """The requirements of an inventory in a marker environment."""

    inventory: Inventory
    expectation: Expectation
    _answers: dict[tuple[str, str], bool | None] = field(default_factory=dict, compare=False)
    _wanted: dict[tuple[tuple[str, ...], frozenset[str]], Wanted] = field(
        default_factory=dict, compare=False
    )

    def unsatisfied(self, inherited: frozenset[tuple[str, str, str]]) -> tuple[Unsatisfied, ...]:
        """Return what is not met, sorted.

        `inherited` are those of the parent, as (dependant, requirement, found).
        """
        found = set()
        for dependant, text, requirement in self.active:
            target = self.inventory.by_name.get(canonicalize_name(requirement.name), ())
            if any(meets(requirement, one.version) for one in target):
                continue
            version = target[0].version if target else ""
            identity = (dependant.name, text, version)
            why = self._why(dependant, requirement, version)
            kind = INTENDED if why else INHERITED if identity in inherited else NEW
            layer = max(dependant.layer, *(one.layer for one in target), 0)
            name = canonicalize_name(requirement.name)
            found.add(Unsatisfied(*identity, kind, layer, why, name))
        return tuple(sorted(found))

    @cached_property
    def active(self) -> tuple[tuple[Distribution, str, Requirement], ...]:
        """Requirements whose marker holds, as (dependant, text, requirement)."""
        extras = self._extras()
        return tuple(
            (one, text, requirement)
            for one in self.inventory.distributions
            for text, requirement in self._of(one, extras.get(one.name, frozenset()))
        )

    def wishes(self, name: str) -> tuple[Wish, ...]:
        """Return what is asked of a distribution, by normalised name, in the inventory's order."""
        return self._wishes.get(name, ())

    @cached_property
    def _wishes(self) -> Mapping[str, tuple[Wish, ...]]:
        found: dict[str, tuple[Wish, ...]] = {}
        for dependant, _, requirement in self.active:
            name = canonicalize_name(requirement.name)
            found[name] = (*found.get(name, ()), Wish(dependant, requirement))
        return found

    @cached_property
    def unreadable(self) -> tuple[tuple[Distribution, str], ...]:
        """Texts of Requires-Dist that are no requirements, or whose marker cannot be judged."""
        assert self.active is not None  # judging them finds the markers
        return tuple(
            (one, text)
            for one in self.inventory.distributions
            for text in one.requires
            if parse_requirement(text) is None or self._answers.get((text, ""), False) is None
        )

    def _of(self, one: Distribution, extras: frozenset[str]) -> Wanted:
        """Return the requirements of a distribution with these extras, as (text, requirement)."""
        key = (one.requires, extras)
        if key not in self._wanted:
            self._wanted[key] = tuple(self._judged(one, extras))
        return self._wanted[key]

    def _judged(
        self, one: Distribution, extras: frozenset[str]
    ) -> Iterator[tuple[str, Requirement]]:
        for text in one.requires:
            requirement = parse_requirement(text)
            if requirement is None:
                continue
            marker = requirement.marker
            if marker is None or any(self._holds(text, marker, extra) for extra in ("", *extras)):
                yield text, requirement

    def _holds(self, text: str, marker: Marker, extra: str) -> bool:
        key = (text, extra)
        if key not in self._answers:
            environment = {**self.expectation.environment, "extra": extra}
            try:
                self._answers[key] = marker.evaluate(environment)
            # A comparison that means nothing: `python_version ~= "x"`.
            except (UndefinedComparison, UndefinedEnvironmentName, ValueError, RecursionError):
                self._answers[key] = None
        return self._answers[key] is True

    def _extras(self) -> Mapping[str, frozenset[str]]:
        """Extras that are asked for, by distribution: by the lock, or by another distribution."""
        known: dict[str, set[str]] = {}
        for name, asked in self.expectation.extras.items():
            known[canonicalize_name(name)] = set(asked)
        for entry in self.expectation.ledger or ():
            requirement = Requirement(entry.requirement)
            known.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
        pending = list(self.inventory.distributions)
        while pending:
            one = pending.pop()
            for _, requirement in self._of(one, frozenset(known.get(one.name, ()))):
                name = canonicalize_name(requirement.name)
                new = requirement.extras - known.setdefault(name, set())
                if new:
                    known[name] |= new
                    pending.extend(self.inventory.by_name.get(name, ()))
        return {name: frozenset(extras) for name, extras in known.items()}

    def _why(self, dependant: Distribution, requirement: Requirement, found: str) -> str:
        """Return why this is intended, "" when it is not.

        An override means exactly this when what is found is what it holds, and it names who wants
        what instead. A lock without a ledger means its pins.
        """
        if not found:
            return ""
        name = canonicalize_name(requirement.name)
        if self.expectation.ledger is None:
            pins = [(dependant.name, dependant.version), (name, found)]
            held = all(self._is_pinned(*pin) for pin in pins)
            return f"the lock pins {name} {found}" if held else ""
        for entry in self.expectation.ledger:
            override = Requirement(entry.requirement)
            if canonicalize_name(override.name) != name or not meets(override, found):
                continue
            if _named(entry, dependant, requirement):
                return entry.why
        return ""

    def _is_pinned(self, name: str, version: str) -> bool:
        pin = self.expectation.pins.get(name)
        return pin is not None and pin.version is not None and same_version(pin.version, version)


def _named(entry: LedgerEntry, dependant: Distribution, requirement: Requirement) -> bool:
    for text in entry.against:
        match = _AGAINST.fullmatch(text)
        if match and canonicalize_name(match["who"]) == dependant.name:
            try:
                return SpecifierSet(match["what"]) == requirement.specifier
            except InvalidSpecifier:
                return False
    return False

"""Families that a change has torn apart: the members must stand at one version, and do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packaging.version import InvalidVersion, Version

from pipeline.audit.catalogue import SEVERITIES
from pipeline.audit.findings import Finding
from pipeline.inventory.distributions import Inventory
from pipeline.inventory.families import FAMILIES, Family

_RULE = "family-mixed"


def torn(before: Inventory, after: Inventory) -> Iterator[Finding]:
    """Yield a finding for each family that is mixed after, and was not so before."""
    for family in FAMILIES:
        if not family.one_version:
            continue
        there = _versions(family, after)
        if len(there) > 1 and there != _versions(family, before):
            parts = " and ".join(
                f"{version} ({', '.join(names)})" for version, names in sorted(there.items())
            )
            yield Finding(
                _RULE,
                SEVERITIES[_RULE],
                family.name,
                f"the family is at {len(there)} versions now: {parts}",
                fix="install all of them at one version, without their dependencies",
            )


def _versions(family: Family, inventory: Inventory) -> Mapping[str, list[str]]:
    """Return the members by their version; its local part is the build's and free."""
    found: dict[str, list[str]] = {}
    for name in family.members:
        if (one := inventory.the_one(name)) is not None:
            found.setdefault(_public(one.version), []).append(name)
    return found


def _public(version: str) -> str:
    try:
        return Version(version).public
    except InvalidVersion:
        return version

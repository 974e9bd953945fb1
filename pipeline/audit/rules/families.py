"""Distributions that are one thing in several packages, and must stand at one version."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from packaging.version import InvalidVersion, Version

from pipeline.audit.context import Context
from pipeline.audit.findings import Finding
from pipeline.inventory.distributions import Distribution
from pipeline.inventory.families import FAMILIES


def families(context: Context) -> Iterator[Finding]:
    """All members that are installed have one version; the local part is the build's and free."""
    for family in FAMILIES:
        if not family.one_version:
            continue
        found = [one for name in family.members if (one := context.inventory.the_one(name))]
        versions: dict[str, list[Distribution]] = {}
        for one in found:
            versions.setdefault(_public(one.version), []).append(one)
        if len(versions) > 1:
            yield _mixed(context, family.name, versions)


def _mixed(context: Context, family: str, versions: dict[str, list[Distribution]]) -> Finding:
    # What came last was moved; what it stood at is what was left behind.
    groups = sorted(versions.items(), key=lambda item: max(one.layer for one in item[1]))
    moved = max((one for one in groups[-1][1]), key=lambda one: one.layer)
    parts = [f"{version} ({_names(found)})" for version, found in groups]
    message = f"the family is at {len(groups)} versions: {' and '.join(parts)}"
    before = {_earlier(context, one) for one in groups[-1][1]} - {"", groups[-1][0]}
    if len(before) == 1:
        old = before.pop()
        message += f"; {_direction(old, groups[-1][0])} from {old}, half of it was left behind"
    elif groups[0][1][0].layer != moved.layer:
        message += f"; {groups[0][0]} was left behind"
    causes = _causes(context, [one for _, found in groups for one in found])
    if causes:
        message += f"; {' and '.join(causes)}"
    return context.finding(
        "family-mixed",
        family,
        message,
        path=moved.path,
        layer=moved.layer,
        fix="install all of them at the locked version, without their dependencies",
    )


def _causes(context: Context, members: Sequence[Distribution]) -> list[str]:
    """Return who asks for a version that some members have and others do not."""
    names = {one.name for one in members}
    return sorted(
        {
            f"{wish.dependant.spelled} {wish.dependant.version} wants {wish}"
            for one in members
            for wish in context.requirements.wishes(one.name)
            if wish.dependant.name not in names
            and wish.is_exact
            and not all(wish.accepts(other.version) for other in members)
        }
    )


def _earlier(context: Context, one: Distribution) -> str:
    """Return the version that the parent, or without one the lock, has of a distribution."""
    if context.parent is not None:
        return _public(context.parent.distributions.get(one.name, ("", ""))[0])
    pin = context.expectation.pins.get(one.name)
    return _public(pin.version or "") if pin else ""


def _direction(old: str, new: str) -> str:
    try:
        return "it was moved up" if Version(new) > Version(old) else "it was moved down"
    except InvalidVersion:
        return "it was moved"


def _public(version: str) -> str:
    try:
        return Version(version).public
    except InvalidVersion:
        return version


def _names(found: Sequence[Distribution]) -> str:
    return ", ".join(sorted(one.name for one in found))

"""Installed versions against the lock. The lock wins over any Requires-Dist."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from pipeline.audit.context import Context
from pipeline.audit.expectation import LockedDistribution
from pipeline.audit.findings import Finding
from pipeline.audit.rules.metadata import missing_sites
from pipeline.inventory.distributions import Distribution


def compare(locked: str, found: str) -> str | None:
    """Return the rule that two versions break, None when they are the same version (PEP 440).

    The local part counts: "==" of a requirement would accept 2.13.0+cu132 for 2.13.0, a lock does
    not. Versions outside of PEP 440 are the same only when their texts are.
    """
    if locked == found:
        return None
    try:
        want, have = Version(locked), Version(found)
    except InvalidVersion:
        return "pin-changed"
    if want == have:
        return None
    if want.public == have.public:
        return "build-changed"
    return "pin-upgraded" if have > want else "pin-downgraded"


def pins(context: Context) -> Iterator[Finding]:
    """Every distribution is at its pin, none is missing, none is there unasked."""
    expectation, inventory = context.expectation, context.inventory
    if expectation.distributions is None or missing_sites(context):
        return  # where nothing can be looked at, all would be missing: `sites` says so once
    for name, found in inventory.by_name.items():
        pin = expectation.pins.get(name)
        if pin is None:
            for one in found:
                yield _not_in_lock(context, one)
        elif len(found) == 1:  # which of several counts is not for this rule to choose
            yield from _moved(context, pin, found[0])
    unclear = {one.name for one in inventory.broken}
    for name, pin in expectation.pins.items():
        if name not in inventory.by_name and name not in unclear:
            yield context.finding(
                "distribution-missing",
                name,
                f"the lock has {pin.name} {pin.version or ''}".rstrip() + ", the image has none",
                fix="find the step that removed it, or take it out of the lock",
            )


def _not_in_lock(context: Context, one: Distribution) -> Finding:
    inherited = context.parent is not None and one.name in context.parent.distributions
    return context.finding(
        "not-in-lock",
        one.name,
        f"{one.spelled} {one.version} is not in the lock"
        + (", and was in the parent already" if inherited else ""),
        path=one.path,
        layer=one.layer,
        fix="add it to the lock's requirements, or remove it in a stage",
    )


def _moved(context: Context, pin: LockedDistribution, one: Distribution) -> Iterator[Finding]:
    rule = compare(pin.version, one.version) if pin.version is not None else None
    if rule is None:
        return
    what = {
        "pin-upgraded": "is newer than",
        "pin-downgraded": "is older than",
        "build-changed": "differs only in its local part from",
        "pin-changed": "is not",
    }[rule]
    yield context.finding(
        rule,
        one.name,
        f"{one.spelled} {one.version} {what} the locked {pin.name} {pin.version}"
        + "".join(f"; {cause}" for cause in _causes(context, pin, one)),
        path=one.path,
        layer=one.layer,
        fix="install the locked wheel last, without its dependencies",
    )


def _causes(context: Context, pin: LockedDistribution, one: Distribution) -> list[str]:
    """Return who wants it as it is and not as it is locked: an install that walked requirements
    has obeyed them."""
    assert pin.version is not None
    return sorted(
        {
            f"{wish.dependant.spelled} {wish.dependant.version} wants {wish}"
            for wish in context.requirements.wishes(one.name)
            if wish.accepts(one.version) and not wish.accepts(pin.version)
        }
    )

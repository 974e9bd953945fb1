"""Distributions that came from elsewhere than an index (PEP 610)."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import Finding

_INDEX = "an index"


def origins(context: Context) -> Iterator[Finding]:
    """What came from a URL is named, unless its hash is the lock's; a changed origin is drift."""
    before = context.parent.distributions if context.parent else {}
    for one in context.inventory.distributions:
        origin = one.origin
        now = str(origin or "")
        version, then = before.get(one.name, ("", ""))
        if version == one.version and then != now:
            yield context.finding(
                "origin-changed",
                one.name,
                f"{version} is from {now or _INDEX}, the parent's {version} from {then or _INDEX}",
                path=one.path,
                layer=one.layer,
                fix="equal versions, other content: lock the file that is meant by its hash",
            )
        if origin is None:
            continue
        pin = context.expectation.pins.get(one.name)
        if origin.sha256 and pin is not None and origin.sha256 in pin.sha256:
            continue
        if origin.kind == "editable":
            yield context.finding(
                "origin-editable",
                one.name,
                f"{one.version} is {origin}: the version does not vouch for its content",
                path=one.path,
                layer=one.layer,
                fix="install a wheel of it, or compare the files of that directory",
            )
        else:
            yield context.finding(
                "origin-direct-url",
                one.name,
                f"{one.version} is from {origin}, which the lock does not vouch for",
                path=one.path,
                layer=one.layer,
                fix="lock the wheel with its hash",
            )

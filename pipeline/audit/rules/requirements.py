"""Requirements that the image does not meet: intended by the ledger, inherited, or new."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.audit.report import INHERITED, INTENDED, NEW

_SEVERITIES = {INTENDED: NOTE, INHERITED: WARNING, NEW: ERROR}


def requirements(context: Context) -> Iterator[Finding]:
    """Every requirement whose marker holds in the image is met, or the ledger says why not."""
    for one in context.unsatisfied:
        there = f"{one.found} is there" if one.found else "it is not there"
        yield context.finding(
            "requirement-unsatisfied",
            one.dependant,
            f"wants {one.requirement}, {there} ({one.kind})",
            layer=one.layer,
            severity=_SEVERITIES[one.kind],
            reason=one.why,
            fix=""
            if one.kind == INTENDED
            else "move the pin, or enter the override with its reason in the lock's ledger",
        )
    for distribution, text in context.requirements.unreadable:
        yield context.finding(
            "requirement-unreadable",
            distribution.name,
            f"{text!r} is no requirement (PEP 508) and is not judged",
            path=distribution.path,
            layer=distribution.layer,
        )

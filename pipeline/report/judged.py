"""What SARIF, JUnit and Markdown are made of: findings, whatever they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.audit.report import AuditReport

NEVER = "never"
THRESHOLDS = (ERROR, WARNING, NOTE, NEVER)
AUDIT, DRIFT = "audit", "drift"


@dataclass(frozen=True)
class Judged:
    """Findings on one subject, in order. `verb` is AUDIT or DRIFT.

    `against` is what it was held against ("" for nothing). `layers` says by digest what a layer is
    ("layer 30, sm121-chain v4: NCCL 2.30.7"). `unasked` are rules that could not be asked, each
    with the reason.
    """

    verb: str
    subject: str
    against: str
    findings: Sequence[Finding]
    layers: Mapping[str, str] = field(default_factory=dict)
    unasked: Mapping[str, str] = field(default_factory=dict)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of findings by severity, tolerated ones aside; all three always there."""
        found = [finding.severity for finding in self.findings if not finding.reason]
        return {severity: found.count(severity) for severity in (ERROR, WARNING, NOTE)}

    @property
    def tolerated(self) -> int:
        """Number of findings that a reason explains."""
        return sum(1 for finding in self.findings if finding.reason)


def counts_from(severity: str, threshold: str) -> bool:
    """Whether a severity reaches a threshold, one of THRESHOLDS."""
    return threshold != NEVER and THRESHOLDS.index(severity) <= THRESHOLDS.index(threshold)


def fails(findings: Sequence[Finding], threshold: str) -> bool:
    """Whether a finding reaches the threshold; one that is tolerated never does."""
    return any(not one.reason and counts_from(one.severity, threshold) for one in findings)


def summed(
    findings: Sequence[Finding], most: int
) -> Iterator[tuple[Sequence[Finding], Sequence[Finding]]]:
    """Yield neighbours of one severity, rule and subject together: those to show, those to count.

    At most `most` of them are shown; one that would be the only one left is shown too.
    """
    for _, group in groupby(findings, key=lambda one: (one.severity, one.rule, one.subject)):
        same = list(group)
        count = len(same) if len(same) <= most + 1 else most
        yield same[:count], same[count:]


_PINS = ("pin-upgraded", "pin-downgraded", "build-changed", "pin-changed", "not-in-lock")


def judged_audit(report: AuditReport) -> Judged:
    """Return an audit's findings."""
    unasked = {}
    if not report.against:
        rules = (*_PINS, "distribution-missing", "patch-lost")
        unasked = dict.fromkeys(rules, "no lock was named (--against)")
    return Judged(
        AUDIT,
        report.subject,
        report.against,
        report.findings,
        {
            layer.digest: f"layer {number}" + (f", {layer.created_by}" if layer.created_by else "")
            for number, layer in reversed(list(enumerate(report.layers)))
        },
        unasked,
    )

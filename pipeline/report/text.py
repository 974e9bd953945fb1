"""Text for people: one line a finding, and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TextIO

from rich.console import Console
from rich.text import Text

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.audit.report import AuditReport

_STYLES = {ERROR: "bold red", WARNING: "yellow", NOTE: "dim"}
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_SHOWN = 3  # of findings that differ in their file only


def write_audit(report: AuditReport, out: TextIO, *, verbose: bool = False) -> None:
    """Write a report. Colours only on a terminal; lines are never folded.

    Many files of one rule and subject are summed up, and tolerated findings are counted only,
    unless `verbose`.
    """
    console = Console(file=out, highlight=False, soft_wrap=True)
    shown = [one for one in report.findings if verbose or not one.reason]
    for _, group in groupby(shown, key=lambda one: (one.severity, one.rule, one.subject)):
        findings = list(group)
        count = len(findings) if verbose or len(findings) <= _SHOWN + 1 else _SHOWN
        for finding in findings[:count]:
            console.print(_line(report, finding, verbose))
        if count < len(findings):
            rest = f"        … and {len(findings) - count:,} more of {findings[0].subject} (-v)"
            console.print(Text(rest, style=_STYLES[findings[0].severity]))
        if fix := findings[0].fix:
            console.print(Text(f"        → {fix}", style="cyan"))
    console.print(Text("\n".join(_summary(report, len(report.findings) - len(shown)))))


def _line(report: AuditReport, finding: Finding, verbose: bool) -> Text:
    text = Text(f"{finding.severity:<7} ", style=_STYLES[finding.severity])
    text.append(f"{finding.rule}  ", style="bold")
    text.append(plain(f"{finding.subject}: {finding.message}"), style="default")
    if finding.reason:
        text.append(plain(f"  [tolerated: {finding.reason}]"), style="green")
    if place := _place(report, finding):
        text.append(plain(f"  ({place})"), style="dim")
    if verbose and finding.path:
        text.append(f"\n        {plain(finding.path)}", style="dim")
    return text


def _place(report: AuditReport, finding: Finding) -> str:
    """Return the number of the layer, from 0, with what made it."""
    digests = [layer.digest for layer in report.layers]
    if finding.layer not in digests:
        return ""
    number = digests.index(finding.layer)
    made_by = report.layers[number].created_by
    return f"layer {number}" + (f", {made_by}" if made_by else "")


def _summary(report: AuditReport, hidden: int) -> Iterator[str]:
    yield (
        f"{report.subject}: {len(report.distributions)} distributions against "
        + (report.against or "nothing (no --against: pins are not judged)")
    )
    kinds = [one.kind for one in report.unsatisfied]
    if kinds:
        yield "requirements that are not met: " + _list(
            [f"{kinds.count(kind)} {kind}" for kind in ("new", "inherited", "intended")]
        )
    counts = [f"{count} {severity}s" for severity, count in report.counts.items()]
    yield _list(counts) + (f"; {hidden} tolerated, shown with -v" if hidden else "")


def plain(text: str) -> str:
    """Show what would move the cursor, or is no text: names come from whoever made the image."""
    return _UNPRINTABLE.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _list(parts: Sequence[str]) -> str:
    return ", ".join(parts)

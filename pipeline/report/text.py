"""Text for people: a line a finding, what to do about it, and the most harmful first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.audit.report import AuditReport
from pipeline.report.columns import console_on, write_rows
from pipeline.report.judged import Judged, judged_audit, summed
from pipeline.report.plain import printable

STYLES = {ERROR: "bold red", WARNING: "yellow", NOTE: "dim"}
_SHOWN = 3  # of findings that differ in their file only


def write_audit(report: AuditReport, out: TextIO, *, verbose: bool = False) -> None:
    """Write a report. Colours, and lines that are folded, only on a terminal.

    Many files of one rule and subject are summed up, and tolerated findings are counted only,
    unless `verbose`.
    """
    console = console_on(out)
    judged = judged_audit(report)
    write_findings(judged, console, verbose=verbose)
    for line in _summary(report):
        console.print(Text(line))
    console.print(Text(counted(judged, verbose=verbose)))


def write_findings(judged: Judged, console: Console, *, verbose: bool) -> None:
    """Write findings in columns; see `write_audit`."""
    shown = [one for one in judged.findings if verbose or not one.reason]
    write_rows(console, list(_rows(judged, shown, verbose)))


def counted(judged: Judged, *, verbose: bool) -> str:
    """Return the last line of a report: how many findings there are."""
    counts = [
        f"{number:,} {severity}{'' if number == 1 else 's'}"
        for severity, number in judged.counts.items()
    ]
    tolerated = judged.tolerated
    shown = "" if verbose else ", shown with -v"
    return ", ".join(counts) + (f"; {tolerated:,} tolerated{shown}" if tolerated else "")


def _rows(judged: Judged, shown: Sequence[Finding], verbose: bool) -> Iterator[Sequence[Text]]:
    for told, rest in summed(shown, len(shown) if verbose else _SHOWN):
        for finding in told:
            style = STYLES[finding.severity]
            yield (
                Text(finding.severity, style),
                Text(finding.rule, "bold"),
                _words(judged, finding),
            )
            if verbose and finding.path:
                yield _more(printable(finding.path), "dim")
        if rest:
            subject = printable(rest[0].subject)
            yield _more(f"… and {len(rest):,} more of {subject} (-v)", STYLES[rest[0].severity])
        if fix := told[0].fix:
            yield _more(f"→ {printable(fix)}", "cyan")


def _more(text: str, style: str) -> Sequence[Text]:
    return (Text(""), Text(""), Text(text, style))


def _words(judged: Judged, finding: Finding) -> Text:
    text = Text(printable(f"{finding.subject}: {finding.message}"))
    if finding.reason:
        text.append(printable(f"  [tolerated: {finding.reason}]"), style="green")
    if layer := judged.layers.get(finding.layer):
        text.append(printable(f"  ({layer})"), style="dim")
    return text


def _summary(report: AuditReport) -> Iterator[str]:
    yield printable(
        f"{report.subject}: {len(report.distributions):,} distributions against "
        + (report.against or "nothing (no --against: pins are not judged)")
    )
    kinds = [one.kind for one in report.unsatisfied]
    if kinds:
        yield "requirements that are not met: " + ", ".join(
            f"{kinds.count(kind)} {kind}" for kind in ("new", "inherited", "intended")
        )

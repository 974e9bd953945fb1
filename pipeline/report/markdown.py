"""GitHub's Markdown for a comment on a pull request: compact, and never too long to be posted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.report.judged import Judged, fails, summed
from pipeline.report.markup import code, words
from pipeline.report.plain import shortened
from pipeline.report.rules import RULES

MOST = 65_536  # characters of a comment that GitHub takes
_RESERVE = 600  # kept for closing what is open and for saying what was cut
CELL = 1_200  # characters of one text, before it is escaped
_SHOWN = 3  # of findings that differ in their file only
_MARKS = {ERROR: "🔴 error", WARNING: "🟡 warning", NOTE: "⚪ note"}


@dataclass(frozen=True)
class Table:
    """A table: `head` and cells are Markdown already. A collapsed one is shown on a click."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    collapsed: bool = True


def markdown(judged: Judged, *, threshold: str, tables: Iterable[Table] = ()) -> str:
    """Return findings, and then `tables`, as a comment of at most MOST characters.

    What does not fit is cut from the end, row by row, and the comment says how much.
    """
    page = _Page()
    page.add(_head(judged, threshold))
    counting = [one for one in judged.findings if not one.reason and one.severity != NOTE]
    notes = [one for one in judged.findings if not one.reason and one.severity == NOTE]
    tolerated = [one for one in judged.findings if one.reason]
    page.table(_findings(judged, "Findings", counting, collapsed=False))
    for table in tables:
        page.table(table)
    page.table(_findings(judged, "Notes", notes))
    page.table(_findings(judged, "Tolerated", tolerated))
    return page.text()


@dataclass
class _Page:
    parts: list[str] = field(default_factory=list)
    size: int = 0
    cut: list[str] = field(default_factory=list)

    def fits(self, text: str) -> bool:
        return self.size + len(text) + _RESERVE <= MOST

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.size += len(text)

    def table(self, table: Table) -> None:
        """Add as many rows as there is room for."""
        if not table.rows:
            return
        many = f"{len(table.rows):,}"
        title = f"{table.title} ({many})"
        opening = f"<details><summary>{title}</summary>\n\n" if table.collapsed else ""
        opening += f"| {' | '.join(table.head)} |\n|{'---|' * len(table.head)}\n"
        if not self.fits(opening):
            self.cut.append(f"{table.title}: all {many} rows")
            return
        self.add(opening)
        for number, cells in enumerate(table.rows):
            row = f"| {' | '.join(cells)} |\n"
            if not self.fits(row):
                self.cut.append(f"{table.title}: {len(table.rows) - number:,} of {many} rows")
                break
            self.add(row)
        self.add("\n</details>\n\n" if table.collapsed else "\n")

    def text(self) -> str:
        if self.cut:
            self.add(f"**Cut, a comment has {MOST:,} characters:** {'; '.join(self.cut)}.\n")
        return "".join(self.parts)


def _head(judged: Judged, threshold: str) -> str:
    failed = fails(judged.findings, threshold)
    against = f" against {code(shortened(judged.against, CELL))}" if judged.against else ""
    counts = ", ".join(
        f"{number:,} {severity}{'' if number == 1 else 's'}"
        for severity, number in judged.counts.items()
    )
    more = f", {judged.tolerated:,} tolerated" if judged.tolerated else ""
    lines = [
        f"### {'❌' if failed else '✅'} {judged.verb} of "
        f"{code(shortened(judged.subject, CELL))}{against}\n",
        f"**{'Fails' if failed else 'Passes'}** (from severity {threshold}): {counts}{more}.\n",
    ]
    unasked = sorted(set(judged.unasked.values()))
    lines += [f"Not asked: {words(_short(why))}.\n" for why in unasked]
    return "\n".join(lines) + "\n"


def _findings(
    judged: Judged, title: str, findings: Sequence[Finding], *, collapsed: bool = True
) -> Table:
    rows = []
    for told, rest in summed(findings, _SHOWN):
        rows += [_row(judged, finding) for finding in told]
        if rest:
            rows.append(["", "", code(_short(rest[0].subject)), f"… and {len(rest):,} more"])
    return Table(title, ("", "rule", "subject", "what"), rows, collapsed)


def _row(judged: Judged, finding: Finding) -> list[str]:
    rule = RULES[finding.rule]
    name = f"[{rule.id}]({rule.url})" if rule.url else code(rule.id)
    text = words(_short(finding.message))
    if layer := judged.layers.get(finding.layer):
        text += f"<br>by {words(_short(layer))}"
    if finding.reason:
        text += f"<br>because: {words(_short(finding.reason))}"
    if finding.fix:
        text += f"<br>→ {words(_short(finding.fix))}"
    return [_MARKS[finding.severity], name, code(_short(finding.subject)), text]


def _short(text: str) -> str:
    return shortened(text, CELL)

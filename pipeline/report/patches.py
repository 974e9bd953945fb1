"""What releases do to patches, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.patching.verdicts import EditReport, PatchReport, State, Survey, Verdict

_COLOURS = {
    Verdict.APPLIES: "green",
    Verdict.ALREADY_APPLIED: "cyan",
    Verdict.UPSTREAM: "cyan",
    Verdict.MOVED: "yellow",
    Verdict.DRIFTED: "yellow",
}
_LONGEST = 300  # letters of a change that are shown; JSON holds all of it
NOT_FOR_IT = "-"
UNNAMED = "* no variant is for this release: asked as if the nearest one were"


def survey_json(survey: Survey) -> dict[str, Any]:
    """One survey as JSON values."""
    return {
        "subject": survey.name,
        "python": survey.python,
        "fits": survey.fits,
        "patches": [
            {
                "name": report.patch.name,
                "distribution": report.patch.distribution,
                "version": str(survey.versions.get(report.patch.distribution, "")),
                "state": report.state.value,
                "variant": report.variant.label if report.variant else "",
                "as-if": report.variant is not None and not report.own,
                "message": report.message,
                "edits": [_edit_json(edit) for edit in report.edits],
            }
            for report in survey.patches
        ],
    }


def _edit_json(report: EditReport) -> dict[str, Any]:
    proposal = report.proposal
    return {
        "id": report.edit.id,
        "file": report.edit.file,
        "within": report.edit.within,
        "verdict": report.verdict.value,
        "message": report.message,
        "lines": [line._asdict() for line in report.lines],
        "proposal": {
            "edit": asdict(proposal.edit),
            "changes": list(proposal.changes),
            "read": list(proposal.read),
        }
        if proposal
        else None,
    }


def matrix(surveys: Sequence[Survey]) -> list[tuple[str, str, list[str]]]:
    """A row an edit: patch, edit id, and one word for each survey."""
    rows: dict[tuple[str, str], list[str]] = {}
    for column, survey in enumerate(surveys):
        for report in survey.patches:
            edits = report.edits or [None]
            for edit in edits:
                key = (report.patch.name, edit.edit.id if edit else "")
                cells = rows.setdefault(key, [NOT_FOR_IT] * len(surveys))
                star = " *" if edit and edit.verdict is Verdict.APPLIES and unnamed(report) else ""
                cells[column] = (edit.verdict if edit else report.state).value + star
    return [(patch, edit, cells) for (patch, edit), cells in sorted(rows.items())]


def unnamed(report: PatchReport) -> bool:
    """Whether edits apply to a release that no variant names."""
    return report.variant is not None and not report.own


def starred(surveys: Sequence[Survey]) -> bool:
    """Whether the table has a star to explain."""
    return any(cell.endswith("*") for _, _, cells in matrix(surveys) for cell in cells)


def is_news(edit: EditReport) -> bool:
    """Whether there is more to say about an edit than that it applies."""
    return edit.verdict is not Verdict.APPLIES or bool(edit.proposal and edit.proposal.read)


def droppable(surveys: Sequence[Survey]) -> list[str]:
    """Which patches the newest release asked about has, one line each, and since which of them."""
    lines = []
    names = sorted({report.patch.name for survey in surveys for report in survey.patches})
    for name in names:
        found = sorted(
            (survey.versions[report.patch.distribution], survey.name, report)
            for survey in surveys
            for report in survey.patches
            if report.patch.name == name and report.patch.distribution in survey.versions
        )
        since = ""
        for _, subject, report in reversed(found):
            if report.state not in (State.UPSTREAM, State.ALREADY_APPLIED):
                break
            since = subject
        if since:
            lines.append(f"{name}: {since} has it; a line on it can drop the patch")
    return lines


def told(report: PatchReport) -> Iterator[tuple[str, EditReport]]:
    """The edits that there is more to say about; neighbours with the same to say go together."""
    news = filter(is_news, report.edits)
    for _, group in groupby(news, key=lambda edit: (edit.verdict, *details(edit))):
        edits = list(group)
        yield ", ".join(edit.edit.id for edit in edits), edits[0]


def details(report: EditReport) -> Iterator[tuple[str, str]]:
    """What there is to say about an edit beside its verdict: a word for each line, and the line."""
    if report.message:
        yield "", _clean(report.message)
    for line in report.lines:
        yield "line", _clean(f"{line.file}:{line.number}  {line.text.strip()}")
    if report.proposal:
        for change in report.proposal.changes:
            yield "proposed", change if len(change) <= _LONGEST else f"{change[:_LONGEST]} …"
        for why in report.proposal.read:
            yield "READ", why


def _clean(text: str) -> str:
    """A release's text on one line, that cannot move the cursor."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for letter in text[:_LONGEST]
    )


def worth_saying(report: PatchReport) -> bool:
    """Whether a patch needs more words than its row of the table."""
    return report.state is not State.FITS


def write_text(surveys: Sequence[Survey], out: TextIO) -> None:
    """The table, then for each survey what is not plain. Colours only on a terminal."""
    terminal = out.isatty()
    console = Console(
        file=out, width=None if terminal else 10_000, highlight=False, soft_wrap=not terminal
    )
    table = Table("patch", "edit", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for survey in surveys:
        table.add_column(escape(survey.name), overflow="fold")
    for patch, edit, cells in matrix(surveys):
        table.add_row(escape(patch), escape(edit), *map(_coloured, cells))
    with console.capture() as shown:
        console.print(table)
    for line in shown.get().splitlines():
        out.write(line.rstrip() + "\n")
    if starred(surveys):
        console.print(UNNAMED)
    for survey in surveys:
        reports = [report for report in survey.patches if worth_saying(report)]
        for report in reports:
            _write_patch(console, survey, report)
    for line in droppable(surveys):
        console.print(f"\n{escape(line)}", end="")
    if droppable(surveys):
        console.print()


def _write_patch(console: Console, survey: Survey, report: PatchReport) -> None:
    head = f"[bold]{escape(report.patch.name)}[/bold] on {escape(survey.name)}: {report.state}"
    console.print(f"\n{head}")
    if report.message:
        console.print(f"  {escape(report.message)}")
    for names, edit in told(report):
        console.print(f"  {escape(names)}  {_coloured(edit.verdict.value)}")
        for word, text in details(edit):
            mark = f"[yellow]{word}[/yellow]" if word == "READ" else word
            gap = " " * (10 - len(word) if word else 0)
            console.print(f"    {mark}{gap}{escape(text)}")


def _coloured(word: str) -> str:
    verdict = word.removesuffix(" *")
    colour = _COLOURS.get(Verdict(verdict), "red") if verdict in set(Verdict) else ""
    return f"[{colour}]{word}[/{colour}]" if colour else word

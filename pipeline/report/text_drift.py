"""Text of a drift: what moved, which way, who did it, who wants otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from rich.console import Console
from rich.text import Text

from pipeline.accepted import EXPIRED
from pipeline.drift.changes import DISTRIBUTION, FILES, MET, Change, Wish
from pipeline.drift.comparison import Comparison
from pipeline.drift.findings import describe
from pipeline.drift.images import IMAGE
from pipeline.drift.matrix import Column, History, Row
from pipeline.report.columns import console_on, width_of, write_rows
from pipeline.report.directions import SHOWN
from pipeline.report.judged import DRIFT, Judged
from pipeline.report.judged_drift import judged_comparison, judged_history, layer_words
from pipeline.report.plain import printable
from pipeline.report.rules import RULES
from pipeline.report.text import STYLES, counted, write_findings

_SHOWN = 8  # changes that only say "other files", files, settings: more with -v
# Findings that are told beside what they are about.
_IN_ROWS = {rule.id for rule in RULES.values() if rule.verbs == (DRIFT,)} - {"drift-base"}
_STATES = {"new": "bold red", "inherited": "yellow", "intended": "green", MET: "dim"}


def write_comparison(found: Comparison, out: TextIO, *, verbose: bool = False) -> None:
    """Write what changed, what can hurt first. Colours only on a terminal."""
    console = console_on(out)
    changes = list(found.changes)
    if changes:
        write_rows(console, _plain_first(list(_changes(found, verbose))))
    else:
        console.print(Text("no package moved"))
    if found.settings:
        console.print(Text("\nwhat a container starts with"))
        write_rows(console, _plain_first(list(_settings(found, verbose))))
    if found.files:
        console.print(Text("\nfiles that no package owns"))
        shown = found.files if verbose else found.files[:_SHOWN]
        write_rows(
            console,
            [(_mark(one.direction), Text(printable(one.path))) for one in shown],
        )
        _rest(console, len(found.files) - len(shown))
    judged = judged_comparison(found)
    others = [one for one in found.findings if one.rule not in _IN_ROWS]
    _write_judged(replace(judged, findings=others), console, verbose=verbose)
    before, after = printable(found.before.subject), printable(found.after.subject)
    console.print(Text(f"{before} → {after}: {_counts(found)}"))
    if found.before.kind == found.after.kind == IMAGE:  # trees and locks have no layers
        console.print(Text(_layers(found)))
    console.print(Text(counted(judged, verbose=verbose)))


def write_history(history: History, out: TextIO, *, verbose: bool = False) -> None:
    """Write the packages that move as a matrix, or, where that is too wide, as a line each.

    With `verbose` the packages that never move are there too.
    """
    console = console_on(out)
    rows = [row for row in history.rows if verbose or row.moves]
    matrix = [_heads(history.columns), *(list(_cells(row)) for row in rows)]
    if console.is_terminal and width_of(matrix) > console.width:
        write_rows(console, [_path(history.columns, row) for row in rows])
    else:
        write_rows(console, matrix)
    for column in history.columns:
        if column.state != "built":
            console.print(Text(printable(f"{column.name} {column.state}: {column.reason}"), "dim"))
    wishes = list(_wishes_of(history))
    if wishes:
        console.print(Text("\nwho wants otherwise"))
        write_rows(console, wishes)
    _write_judged(judged_history(history), console, verbose=verbose)
    still = sum(1 for row in history.rows if not row.moves)
    console.print(
        Text(
            f"{printable(history.subject)}: {len(history.columns)} images, "
            f"{len(history.rows) - still:,} packages change, {still:,} do not"
        )
    )
    console.print(Text(counted(judged_history(history), verbose=verbose)))


def _write_judged(judged: Judged, console: Console, *, verbose: bool) -> None:
    if any(verbose or not one.reason for one in judged.findings):
        console.print(Text("\nfindings"))
        write_findings(judged, console, verbose=verbose)
    console.print()


def _changes(found: Comparison, verbose: bool) -> Iterator[Sequence[Text]]:
    """Yield rows: severity, direction, name, versions, and below what is known about them."""
    files = [change for change in found.changes if change.direction == FILES]
    hidden = set() if verbose else {id(change) for change in files[_SHOWN:]}
    nothing = Text("")
    for change in found.changes:
        if id(change) in hidden:
            continue
        name = Text(printable(change.name), "bold")
        severity, said = _judged(found, change.name, describe(change))
        yield (severity, _mark(change.direction), name, _versions(change).append_text(said))
        for wish in change.wishes:
            yield (nothing, nothing, nothing, _wish(wish))
        if verbose:
            for word in ("changed", "added", "removed"):
                for path in getattr(change.files, word):
                    yield (nothing, nothing, nothing, Text(f"{word} {printable(path)}", "dim"))
    if hidden:
        yield (nothing, _mark(FILES), Text(f"… and {len(hidden):,} more (-v)", "dim"), nothing)


def _judged(found: Comparison, subject: str, message: str = "") -> tuple[Text, Text]:
    """Return the severity of a change's finding, "" for one that is meant, and what a baseline file
    says of it."""
    for one in found.findings:
        if one.subject == subject and one.message.startswith(message):
            if one.reason:
                return Text(""), Text(printable(f"  [{one.reason}]"), "green")
            _, expired, said = one.message.partition(EXPIRED)
            return Text(one.severity, STYLES[one.severity]), Text(printable(expired + said), "dim")
    return Text(""), Text("")


def _plain_first(rows: list[Sequence[Text]]) -> list[Sequence[Text]]:
    """Leave the severities out where no row has one."""
    return rows if any(row[0] for row in rows) else [row[1:] for row in rows]


def _versions(change: Change) -> Text:
    text = Text(printable(describe(change)))
    if change.kind != DISTRIBUTION:
        text.append(f"  {change.kind}", "dim")
    if change.layer is not None:
        text.append(printable(f"  ({layer_words(change.layer)})"), "dim")
    return text


def _wish(wish: Wish) -> Text:
    text = Text(printable(str(wish)))
    if wish.state != MET:
        text.append(f" ({wish.state})", _STATES.get(wish.state, ""))
    if wish.why:
        text.append(printable(f"  [{wish.why}]"), "green")
    return text


def _settings(found: Comparison, verbose: bool) -> Iterator[Sequence[Text]]:
    shown = found.settings if verbose else found.settings[:_SHOWN]
    for one in shown:
        before, after = (
            "unset" if value is None else printable(value) for value in (one.before, one.after)
        )
        name = f"{one.name} {one.key}".rstrip()
        severity, said = _judged(found, name)
        versions = Text(f"{before} → {after}").append_text(said)
        yield (severity, Text(printable(name), "bold"), versions)
    if len(found.settings) > len(shown):
        more = f"… and {len(found.settings) - len(shown):,} more (-v)"
        yield (Text(""), Text(more, "dim"), Text(""))


def _rest(console: Console, hidden: int) -> None:
    if hidden > 0:
        console.print(Text(f"… and {hidden:,} more (-v)", "dim"))


def _mark(direction: str) -> Text:
    shown = SHOWN[direction]
    return Text(f"{shown.sign} {shown.word}", shown.style)


def _counts(found: Comparison) -> str:
    parts = [f"{number:,} {SHOWN[direction].word}" for direction, number in found.counts.items()]
    return ", ".join(parts) or "no package moved"


def _layers(found: Comparison) -> str:
    text = f"layers: {len(found.shared)} shared, {len(found.gone)} gone, {len(found.new)} new"
    if found.base_changed is not None:
        text += "; the base changed" if found.base_changed else "; the same base"
    return text


def _heads(columns: Sequence[Column]) -> Sequence[Text]:
    names = [
        printable(one.name) + ("" if one.state == "built" else f" ({one.state})") for one in columns
    ]
    return [Text(name, "bold") for name in ("package", *names)]


def _cells(row: Row) -> Iterator[Text]:
    """Yield the name, then a version where it is new or the first one, and a dot where it stays."""
    yield Text(printable(row.name), "bold")
    for number, (version, change) in enumerate(zip(row.versions, row.changes, strict=True)):
        if change is not None:
            shown = SHOWN[change.direction]
            yield Text(f"{shown.sign} {printable(version)}".rstrip(), shown.style)
        elif number == 0:
            yield Text(printable(version) or "—", "dim")
        else:
            yield Text("·" if version else "—", "dim")


def _path(columns: Sequence[Column], row: Row) -> Sequence[Text]:
    """Return a row on a line: the first version, then each change with its column."""
    text = Text(printable(row.versions[0]) or "—", "dim")
    for column, version, change in zip(columns, row.versions, row.changes, strict=True):
        if change is not None:
            shown = SHOWN[change.direction]
            text.append(f"  {printable(column.name)} ", "dim")
            text.append(f"{shown.sign} {printable(version) or shown.word}", shown.style)
    return (Text(printable(row.name), "bold"), text)


def _wishes_of(history: History) -> Iterator[Sequence[Text]]:
    for row in history.rows:
        for column, change in zip(history.columns, row.changes, strict=True):
            for wish in change.wishes if change else ():
                if wish.state != MET:
                    yield (Text(printable(column.name), "bold"), _wish(wish))

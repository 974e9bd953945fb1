"""A drift as text for a terminal: one line a change, who wants it otherwise, and what did it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.drift.findings import describe
from pipeline.drift.model import (
    ADDED,
    BUILD,
    DEBIAN,
    DOWN,
    FILES,
    LIBRARY,
    MET,
    MOVED,
    ORIGIN,
    REMOVED,
    RENAMED,
    UP,
    Change,
    Comparison,
    History,
    Layer,
)
from pipeline.report.text import plain

_WORDS = {
    UP: "up",
    DOWN: "down",
    MOVED: "moved",
    BUILD: "build",
    ADDED: "added",
    REMOVED: "removed",
    RENAMED: "renamed",
    FILES: "files",
    ORIGIN: "origin",
}
_STYLES = {
    DOWN: "bold red",
    MOVED: "bold red",
    BUILD: "bold magenta",
    ORIGIN: "bold magenta",
    FILES: "magenta",
    UP: "green",
    RENAMED: "yellow",
    REMOVED: "yellow",
    ADDED: "cyan",
}
_MARKS = {
    UP: "↑",
    DOWN: "↓",
    MOVED: "?",
    BUILD: "≈",
    ADDED: "+",
    REMOVED: "-",
    RENAMED: "→",
    FILES: "*",
    ORIGIN: "@",
}
_KINDS = {DEBIAN: "deb", LIBRARY: "library"}
_SHOWN = 5
_WIDTH = max(map(len, _WORDS.values()))
_INDENT = " " * (_WIDTH + 1)


def write_comparison(comparison: Comparison, out: TextIO, *, verbose: bool = False) -> None:
    """Write a comparison. Colours only on a terminal; lines are never folded."""
    console = Console(file=out, highlight=False, soft_wrap=True)
    both = f"{comparison.before.subject} → {comparison.after.subject}"
    console.print(Text(plain(both), "bold"))
    for line in _layers(comparison):
        console.print(Text(plain(line), "dim"))
    for change in comparison.changes:
        console.print(_line(change))
        for text, style in _details(change, verbose):
            console.print(Text(plain(_INDENT + text), style))
    for setting in comparison.settings:
        if setting.name == "Labels" and not verbose:
            continue
        entry = Text(f"{'set':<{_WIDTH}} ", "blue")
        was, now = setting.before or "(not set)", setting.after or "(not set)"
        entry.append(plain(f"{setting.name} {setting.key}".strip()), "bold")
        entry.append(plain(f"  {was} → {now}"), "default")
        console.print(entry)
    _write_files(comparison, console, verbose)
    console.print(Text(plain(_summary(comparison))))


def _layers(comparison: Comparison) -> Iterator[str]:
    if not comparison.before.layers or not comparison.after.layers:
        return
    parts = [f"{len(comparison.shared)} layers shared"]
    if comparison.gone:
        parts.append(f"{len(comparison.gone)} gone ({_size(comparison.gone)})")
    if comparison.new:
        parts.append(f"{len(comparison.new)} new ({_size(comparison.new)})")
    if comparison.base_changed is not None:
        parts.append("another base" if comparison.base_changed else "the same base")
    yield ", ".join(parts)


def _size(layers: Sequence[Layer]) -> str:
    return f"{sum(layer.size for layer in layers) / 1e6:,.1f} MB"


def _line(change: Change) -> Text:
    style = _STYLES[change.direction]
    text = Text(f"{_WORDS[change.direction]:<{_WIDTH}} ", style)
    text.append(plain(change.name), "bold")
    if change.kind in _KINDS:
        text.append(f" ({_KINDS[change.kind]})", "dim")
    text.append(plain(f"  {describe(change)}"), style)
    if change.layer is not None:
        text.append(plain(f"  ({place(change.layer)})"), "dim")
    return text


def place(layer: Layer) -> str:
    """Return the number of a layer, from 0, with what made it."""
    return f"layer {layer.number}" + (f", {layer.created_by}" if layer.created_by else "")


def _details(change: Change, verbose: bool) -> Iterator[tuple[str, str]]:
    for wish in change.wishes:
        if wish.state == MET:
            yield f"{wish}, and has it now", "dim"
        else:
            why = f": {wish.why}" if wish.why else ""
            yield f"{wish}  ({wish.state}{why})", "yellow" if wish.state == "new" else "dim"
    if change.reason:
        yield f"{change.reason}", "dim"
    paths = [*change.files.changed, *change.files.added, *change.files.removed]
    for path in paths if verbose else paths[:_SHOWN]:
        yield path, "dim"
    if not verbose and len(paths) > _SHOWN:
        yield f"… and {len(paths) - _SHOWN:,} more (-v)", "dim"


def _write_files(comparison: Comparison, console: Console, verbose: bool) -> None:
    found = comparison.files
    for one in found if verbose else found[:_SHOWN]:
        text = Text(f"{_WORDS[one.direction]:<{_WIDTH}} ", "dim")
        text.append(plain(one.path), "default")
        if one.layer is not None:
            text.append(plain(f"  ({place(one.layer)})"), "dim")
        console.print(text)
    if not verbose and len(found) > _SHOWN:
        rest = f"{_INDENT}… and {len(found) - _SHOWN:,} more files of no package (-v)"
        console.print(Text(rest, "dim"))


def _summary(comparison: Comparison) -> str:
    counts = [f"{count} {_WORDS[how]}" for how, count in comparison.counts.items()]
    moved = ", ".join(counts) or "no package moved"
    labels = sum(setting.name == "Labels" for setting in comparison.settings)
    rest = [f"{len(comparison.settings) - labels} settings"] if comparison.settings else []
    rest += [f"{labels} labels"] if labels else []
    rest += [f"{len(comparison.files):,} files of no package"] if comparison.files else []
    both = f"{comparison.before.distributions} → {comparison.after.distributions} distributions"
    return "; ".join([both, moved, *rest])


def write_history(history: History, out: TextIO, *, verbose: bool = False) -> None:
    """Write a matrix: a row for every package that ever moves (all with `verbose`), a column for
    every image. A version stands where it changes; "·" is the same as in the column's parent."""
    console = Console(file=out, highlight=False, soft_wrap=True)
    console.print(Text(plain(history.subject), "bold"))
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column("", no_wrap=True)
    for column in history.columns:
        mark = "" if column.state == "built" else f" {column.state}"
        table.add_column(plain(column.name + mark), no_wrap=True, overflow="ignore")
    rows = [row for row in history.rows if verbose or row.moves]
    for row in rows:
        cells = [
            _cell(row.versions[at], row.changes[at], not history.columns[at].parent)
            for at in range(len(history.columns))
        ]
        table.add_row(Text(plain(row.name), "bold"), *cells)
    # A table folds at the width of its console: a matrix is as wide as it is.
    width = Console(width=100_000).measure(table).maximum
    Console(file=out, highlight=False, width=max(width, 1), soft_wrap=True).print(table)
    for column in history.columns:
        if column.reason:
            console.print(Text(plain(f"{column.name} {column.state}: {column.reason}"), "dim"))
    steady = len(history.rows) - sum(row.moves for row in history.rows)
    console.print(Text(f"{len(history.columns)} images, {steady} packages never move"))


def _cell(version: str, change: Change | None, first: bool) -> Text:
    if change is not None:
        shown = version or "gone"
        return Text(plain(f"{_MARKS[change.direction]} {shown}"), _STYLES[change.direction])
    if first:
        return Text(plain(version))
    return Text("·" if version else "", "dim")

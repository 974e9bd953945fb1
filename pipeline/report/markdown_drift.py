"""The tables of a drift for a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.drift.changes import FILES, MET, ORIGIN, Change, Wish
from pipeline.drift.comparison import Comparison
from pipeline.drift.matrix import Column, History, Row
from pipeline.report.directions import SHOWN
from pipeline.report.judged_drift import layer_words
from pipeline.report.markdown import CELL, Table
from pipeline.report.markup import code, words
from pipeline.report.plain import shortened


def comparison_tables(found: Comparison) -> Iterator[Table]:
    """Yield what changed, then what a container starts with."""
    yield Table(
        "Packages that changed",
        ("", "package", "before", "after", "who"),
        [_change(change) for change in found.changes],
        collapsed=False,
    )
    yield Table(
        "What a container starts with",
        ("setting", "before", "after", "why"),
        [
            (
                _code(f"{one.name} {one.key}".rstrip()),
                "unset" if one.before is None else _code(one.before),
                "unset" if one.after is None else _code(one.after),
                _words(one.reason),
            )
            for one in found.settings
        ],
    )
    yield Table(
        "Files that no package owns",
        ("", "path"),
        [(_mark(one.direction), _code(one.path)) for one in found.files],
    )


def history_tables(history: History) -> Iterator[Table]:
    """Yield the matrix of the packages that move, then what is known about each change."""
    moving = [row for row in history.rows if row.moves]
    heads = [_head(column) for column in history.columns]
    yield Table(
        "Packages that change",
        ("package", *heads),
        [(_code(row.name), *_cells(row)) for row in moving],
        collapsed=False,
    )
    yield Table(
        "Each change",
        ("image", "", "package", "before", "after", "who"),
        [
            (_code(column.name), *_change(change))
            for row in moving
            for column, change in zip(history.columns, row.changes, strict=True)
            if change is not None
        ],
    )


def _head(column: Column) -> str:
    return _code(column.name) + ("" if column.state == "built" else f" ({words(column.state)})")


def _cells(row: Row) -> Iterator[str]:
    for number, (version, change) in enumerate(zip(row.versions, row.changes, strict=True)):
        if change is not None:
            sign = SHOWN[change.direction]
            yield f"{sign.sign} **{_words(version) or sign.word}**"
        else:
            yield (_words(version) or "—") if number == 0 else ("·" if version else "—")


def _change(change: Change) -> Sequence[str]:
    before, after = change.before, change.after
    if change.direction == ORIGIN:
        before, after = change.origin_before or "an index", change.origin_after or "an index"
    elif change.direction == FILES:
        after = f"{change.files.count:,} files"
    name = _code(change.name)
    if change.was:
        name += f" (was {_code(change.was)})"
    who = [layer_words(change.layer)] if change.layer is not None else []
    who += [f"because: {change.reason}"] if change.reason else []
    who += [_wish(wish) for wish in change.wishes]
    return (
        _mark(change.direction),
        name,
        _words(before) or "—",
        _words(after) or "—",
        "<br>".join(map(_words, who)),
    )


def _wish(wish: Wish) -> str:
    state = "" if wish.state == MET else f" ({wish.state})"
    return f"{wish}{state}" + (f": {wish.why}" if wish.why else "")


def _mark(direction: str) -> str:
    return f"{SHOWN[direction].sign} {SHOWN[direction].word}"


def _code(text: str) -> str:
    return code(shortened(text, CELL))


def _words(text: str) -> str:
    return words(shortened(text, CELL))

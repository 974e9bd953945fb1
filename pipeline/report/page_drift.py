"""The page of a drift: two images beside each other, or a whole line as a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipeline.drift.changes import MET, Change, LoneFile, Setting
from pipeline.drift.comparison import Comparison
from pipeline.drift.findings import describe
from pipeline.drift.images import Image, Layer
from pipeline.drift.matrix import Column, History, Row
from pipeline.report.directions import SHOWN
from pipeline.report.judged_drift import judged_comparison, judged_history, layer_words
from pipeline.report.page import Cell, Detail, Head, Line, Page, Table, Wanted


def comparison_page(found: Comparison, *, threshold: str) -> Page:
    """Return the page of two images."""
    facts = [*_facts("before", found.before), *_facts("after", found.after)]
    facts.append(
        (
            "layers",
            f"{len(found.shared)} shared, {len(found.gone)} gone, {len(found.new)} new",
        )
    )
    if found.base_changed is not None:
        facts.append(("base", "changed" if found.base_changed else "the same"))
    lines = [
        Line(
            change.name,
            change.kind,
            change.family,
            change.gpu,
            (Cell(change.before), Cell(change.after, change.direction)),
            (_detail("", change),),
        )
        for change in found.changes
    ]
    tables = [_settings(found.settings), _lone(found.files)]
    for title, layers in (
        ("New layers", found.new),
        ("Layers that are gone", found.gone),
        ("Shared layers", found.shared),
    ):
        tables.append(_layers(title, layers))
    return Page(
        f"Drift from {found.before.subject} to {found.after.subject}",
        judged_comparison(found),
        threshold,
        facts,
        (Head("before", found.before.title), Head("after", found.after.title)),
        lines,
        [table for table in tables if table.rows],
    )


def history_page(history: History, *, threshold: str) -> Page:
    """Return the page of a line: every package by every image."""
    moving = sum(1 for row in history.rows if row.moves)
    facts = [
        ("line", history.subject),
        ("images", str(len(history.columns))),
        ("packages", f"{len(history.rows)}, of which {moving} change"),
    ]
    images = Table(
        "Images",
        ("name", "from", "state", "distributions", "layers", "digest"),
        [_image(column) for column in history.columns],
        code=(5,),
    )
    return Page(
        f"Drift of {history.subject}",
        judged_history(history),
        threshold,
        facts,
        [Head(one.name, "" if one.state == "built" else one.state) for one in history.columns],
        [_line(row, history.columns) for row in history.rows],
        [images, *_of_columns(history.columns)],
    )


def _facts(word: str, image: Image) -> Iterator[tuple[str, str]]:
    digest = f", {image.digest}" if image.digest else ""
    yield word, f"{image.subject}, {image.distributions} distributions{digest}"


def _image(column: Column) -> tuple[str, ...]:
    found = column.comparison
    layers = f"{len(column.image.layers)}" + (f", {len(found.new)} new" if found else "")
    return (
        column.name,
        column.parent,
        column.state + (f": {column.reason}" if column.reason else ""),
        str(column.image.distributions),
        layers,
        column.image.digest,
    )


def _line(row: Row, columns: Sequence[Column]) -> Line:
    cells = [
        Cell(version, change.direction if change else "")
        for version, change in zip(row.versions, row.changes, strict=True)
    ]
    details = [
        _detail(column.name, change)
        for column, change in zip(columns, row.changes, strict=True)
        if change is not None
    ]
    return Line(row.name, row.kind, row.family, row.gpu, cells, details)


def _detail(column: str, change: Change) -> Detail:
    files = [
        (word, paths)
        for word, paths in (
            ("changed", change.files.changed),
            ("added", change.files.added),
            ("removed", change.files.removed),
        )
        if paths
    ]
    return Detail(
        column,
        change.direction,
        describe(change),
        layer_words(change.layer) if change.layer else "",
        change.reason,
        [Wanted(str(one), "" if one.state == MET else one.state, one.why) for one in change.wishes],
        files,
    )


def _layers(title: str, layers: Iterable[Layer]) -> Table:
    return Table(
        title,
        ("number", "made by", "MB", "digest"),
        [
            (
                str(layer.number),
                layer.created_by,
                f"{layer.size / 1e6:,.1f}" if layer.size else "",
                layer.digest or layer.diff_id,
            )
            for layer in layers
        ],
        code=(3,),
    )


def _settings(settings: Iterable[Setting], column: str = "") -> Table:
    return Table(
        f"What a container starts with: {column}" if column else "What a container starts with",
        ("setting", "before", "after", "why"),
        [
            (
                f"{one.name} {one.key}".rstrip(),
                "unset" if one.before is None else one.before,
                "unset" if one.after is None else one.after,
                one.reason,
            )
            for one in settings
        ],
        code=(0, 1, 2),
    )


def _lone(files: Iterable[LoneFile], column: str = "") -> Table:
    title = "Files that no package owns"
    return Table(
        f"{title}: {column}" if column else title,
        ("path", "", "made by"),
        [
            (
                one.path,
                f"{SHOWN[one.direction].sign} {SHOWN[one.direction].word}",
                layer_words(one.layer) if one.layer else "",
            )
            for one in files
        ],
        code=(0,),
    )


def _of_columns(columns: Sequence[Column]) -> Iterator[Table]:
    for column in columns:
        if (found := column.comparison) is None:
            continue
        for table in (_settings(found.settings, column.name), _lone(found.files, column.name)):
            if table.rows:
                yield table

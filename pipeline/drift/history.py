"""A whole line, or the tags of a repository, as one matrix of packages by images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pipeline.audit.findings import Finding
from pipeline.chain import BUILT, ROOT
from pipeline.drift.compare import compare
from pipeline.drift.model import DEBIAN, DISTRIBUTION, Change, Column, History, Row
from pipeline.drift.opening import Opener
from pipeline.drift.packages import SYSTEM, rank
from pipeline.drift.sides import Side
from pipeline.errors import Refusal
from pipeline.inventory.families import family_of, talks_to_gpu
from pipeline.oci.references import Reference

_Key = tuple[str, str]  # kind and name


def line_history(opener: Opener) -> History:
    """Return the history of the line that the opener is of: its base, then its stages in order.

    Each is compared with its parent. Raises UsageError when one does not stand in `dist/`.
    """
    chain = opener.project.chain
    base = opener.open(ROOT)
    sides: dict[str, Side] = {ROOT: base}
    columns = [Column(ROOT, "", base.image)]
    for stage in chain:
        below, status = sides[stage.parent or ROOT], stage.on(opener.base)
        parent = stage.parent or ROOT
        if status.state != BUILT:
            sides[stage.name] = below
            columns.append(
                Column(
                    stage.name, parent, below.image, status.state, " ".join(status.reason.split())
                )
            )
            continue
        sides[stage.name] = side = opener.open(stage.name, [below])
        columns.append(Column(stage.name, parent, side.image, comparison=compare(below, side)))
    name = f"line {opener.line}" if opener.line else "the default line"
    return _history(f"{name} on {opener.base}", columns, [sides[one.name] for one in columns])


def tags_history(reference: Reference, opener: Opener) -> History:
    """Return the history of a repository's tags, by name; each is compared with the one before.

    Tags of one image are one column. Raises Refusal without any tag, OutsideTrouble.
    """
    from pipeline.oci.registry.client import Repository  # see `subjects.open_subject`

    repository = Repository(reference.at())
    tags = sorted(repository.tags(), key=_natural)
    if not tags:
        raise Refusal(f"{reference.name}: it has no tags", hint="look at the repository's name")
    columns: list[Column] = []
    sides: list[Side] = []
    for tag in tags:
        beside = sides[-1:]
        side = opener.open(f"docker://{reference.at(tag=tag)}", beside)
        same = [at for at, one in enumerate(sides) if one.image.digest == side.image.digest]
        if same:
            column = columns[same[0]]
            columns[same[0]] = replace(column, name=f"{column.name}, {tag}")
            continue
        parent = columns[-1].name if columns else ""
        comparison = compare(beside[0], side) if beside else None
        columns.append(Column(tag, parent, side.image, comparison=comparison))
        sides.append(side)
    return _history(reference.name, columns, sides)


def _natural(tag: str) -> list[tuple[int, int, str]]:
    """Order tags as people do: v2 before v10."""
    pieces: list[tuple[int, int, str]] = []
    digits = ""
    for char in [*tag, ""]:
        if char.isdecimal() and char.isascii():
            digits += char
            continue
        if digits:
            pieces.append((0, int(digits[:300]), digits))
            digits = ""
        if char:
            pieces.append((1, 0, char))
    return pieces


def _history(subject: str, columns: Sequence[Column], sides: Sequence[Side]) -> History:
    versions = [_versions(side) for side in sides]
    changes = [_changes(column) for column in columns]
    ranks: dict[_Key, int] = {}
    for side in sides:
        for name, found in side.inventory.by_name.items():
            ranks.setdefault((DISTRIBUTION, name), rank(name, found))
    keys = {key for one in versions for key in one} | {key for one in changes for key in one}
    rows = [
        Row(
            kind=kind,
            name=name,
            rank=ranks.get((kind, name), SYSTEM),
            family=family_of(name) if kind == DISTRIBUTION else "",
            gpu=kind == DISTRIBUTION and talks_to_gpu(name),
            versions=tuple(one.get((kind, name), "") for one in versions),
            changes=tuple(one.get((kind, name)) for one in changes),
        )
        for kind, name in keys
    ]
    rows.sort(key=lambda row: (not row.moves, row.rank, row.kind != DISTRIBUTION, row.name))
    return History(subject, tuple(columns), tuple(rows), tuple(_findings(columns)))


def _versions(side: Side) -> dict[_Key, str]:
    found = {
        (DISTRIBUTION, name): " and ".join(sorted({one.version for one in several}))
        for name, several in side.inventory.by_name.items()
    }
    found |= {(DEBIAN, name): one.version for name, one in side.packages.items()}
    return found


def _changes(column: Column) -> Mapping[_Key, Change]:
    """Return the change of every package; of several of one package the first one."""
    found: dict[_Key, Change] = {}
    for change in column.comparison.changes if column.comparison else ():
        found.setdefault((change.kind, change.name), change)
        if change.was:
            found.setdefault((change.kind, change.was), replace(change, after=""))
    return found


def _findings(columns: Iterable[Column]) -> list[Finding]:
    """Return the findings of every step, each with the column that it is of."""
    found = [
        replace(one, message=f"{column.parent} → {column.name}: {one.message}")
        for column in columns
        if column.comparison is not None
        for one in column.comparison.findings
    ]
    return sorted(found, key=Finding.sort_key)

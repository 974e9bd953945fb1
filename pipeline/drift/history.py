"""A whole line, or the tags of a repository, as one matrix of packages by images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pipeline.audit.findings import Finding
from pipeline.chain import BUILT, ROOT
from pipeline.drift.changes import DEBIAN, DISTRIBUTION, Change
from pipeline.drift.compare import compare
from pipeline.drift.matrix import Column, History, Row
from pipeline.drift.opening import Opener
from pipeline.drift.packages import SYSTEM, rank
from pipeline.drift.sides import Side
from pipeline.errors import Refusal
from pipeline.inventory.families import family_of, talks_to_gpu
from pipeline.oci.references import Reference

_Key = tuple[str, str]  # kind and name


class _Matrix:
    """Collects columns and what their rows need, so that no image stays open for it."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self._versions: list[Mapping[_Key, str]] = []
        self._ranks: dict[_Key, int] = {}

    def add(self, column: Column, side: Side) -> None:
        """Add a column with the side that its image is."""
        self.columns.append(column)
        self._versions.append(_versions(side))
        for name, found in side.inventory.by_name.items():
            self._ranks.setdefault((DISTRIBUTION, name), rank(name, found))

    def history(self, subject: str) -> History:
        """Return the whole."""
        changes = [_changes(column) for column in self.columns]
        keys = {key for one in (*self._versions, *changes) for key in one}
        rows = [
            Row(
                kind=kind,
                name=name,
                rank=self._ranks.get((kind, name), SYSTEM),
                family=family_of(name) if kind == DISTRIBUTION else "",
                gpu=kind == DISTRIBUTION and talks_to_gpu(name),
                versions=tuple(one.get((kind, name), "") for one in self._versions),
                changes=tuple(one.get((kind, name)) for one in changes),
            )
            for kind, name in keys
        ]
        rows.sort(key=lambda row: (not row.moves, row.rank, row.kind != DISTRIBUTION, row.name))
        return History(subject, tuple(self.columns), tuple(rows), tuple(_findings(self.columns)))


def line_history(opener: Opener) -> History:
    """Return the history of the line that the opener is of: its base, then its stages in order.

    Each is compared with its parent. Raises UsageError when one does not stand in `dist/`.
    """
    stages = list(opener.project.chain)
    base = opener.open(ROOT)
    sides: dict[str, Side] = {ROOT: base}
    matrix = _Matrix()
    matrix.add(Column(ROOT, "", base.image), base)
    for number, stage in enumerate(stages):
        side, status = sides[stage.parent], stage.on(opener.base)
        column = Column(stage.name, stage.parent, side.image)
        if status.state == BUILT:
            below, side = side, opener.open(stage.name, [side])
            column = replace(column, image=side.image, comparison=compare(below, side))
        else:
            reason = " ".join(status.reason.split())
            column = replace(column, state=status.state, reason=reason)
        sides[stage.name] = side
        matrix.add(column, side)
        needed = {later.parent for later in stages[number + 1 :]}
        sides = {name: one for name, one in sides.items() if name in needed}
    name = f"line {opener.line}" if opener.line else "the default line"
    return matrix.history(f"{name} on {opener.base}")


def tags_history(reference: Reference, opener: Opener) -> History:
    """Return the history of a repository's tags, by name; each is compared with the one before.

    Tags of one image are one column. Raises Refusal without any tag, OutsideTrouble.
    """
    from pipeline.oci.registry.client import Repository  # see `subjects.open_subject`

    tags = sorted(Repository(reference.at()).tags(), key=_natural)
    if not tags:
        raise Refusal(f"{reference.name}: it has no tags", hint="look at the repository's name")
    matrix = _Matrix()
    places: dict[str, int] = {}  # columns by the digest of their image
    last: list[Side] = []
    for tag in tags:
        side = opener.open(f"docker://{reference.at(tag=tag)}", last)
        place = places.setdefault(side.image.digest, len(matrix.columns))
        if place < len(matrix.columns):
            column = matrix.columns[place]
            matrix.columns[place] = replace(column, name=f"{column.name}, {tag}")
            continue
        parent = matrix.columns[-1].name if last else ""
        comparison = compare(last[0], side) if last else None
        matrix.add(Column(tag, parent, side.image, comparison=comparison), side)
        last = [side]
    # A parent may have got the name of another tag since.
    names = [column.name for column in matrix.columns]
    for at in range(1, len(names)):
        matrix.columns[at] = replace(matrix.columns[at], parent=names[at - 1])
    return matrix.history(reference.name)


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

"""What the HTML page shows, as plain values: whatever the report, it is one page of these parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.audit.findings import Finding
from pipeline.report.directions import SHOWN, Direction
from pipeline.report.judged import Judged, fails, summed
from pipeline.report.plain import printable, shortened
from pipeline.report.rules import RULES, RuleText

_FEW = 3  # columns
_SHOWN = 8  # findings that differ in their place only
_HEADING = 200  # characters


@dataclass(frozen=True)
class Head:
    """A column of the matrix; `note` is what is said below its name ("held")."""

    name: str
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """A version in the matrix; `direction` is of SHOWN, "" where nothing changed."""

    text: str
    direction: str = ""

    @property
    def shown(self) -> Direction | None:
        """Sign and word of the direction."""
        return SHOWN.get(self.direction)


@dataclass(frozen=True)
class Wanted:
    """Who wants what; `state` is a word ("intended"), `why` the reason for it."""

    who: str
    state: str = ""
    why: str = ""


@dataclass(frozen=True)
class Detail:
    """What is known of one change of a row, in the column named `column`."""

    column: str
    direction: str
    text: str
    layer: str = ""
    reason: str = ""
    wishes: Sequence[Wanted] = ()
    files: Sequence[tuple[str, Sequence[str]]] = ()

    @property
    def shown(self) -> Direction | None:
        """Sign and word of the direction."""
        return SHOWN.get(self.direction)


@dataclass(frozen=True)
class Line:
    """A package in the matrix."""

    name: str
    kind: str
    family: str
    gpu: bool
    cells: Sequence[Cell]
    details: Sequence[Detail] = ()

    @property
    def changed(self) -> bool:
        """Whether anything about it changes."""
        return any(cell.direction for cell in self.cells) or bool(self.details)


@dataclass(frozen=True)
class Table:
    """A table of plain texts. `code` are the columns, from 0, that hold names, paths or hashes."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    code: Sequence[int] = ()


@dataclass(frozen=True)
class Page:
    """A whole page."""

    title: str
    judged: Judged
    threshold: str
    facts: Sequence[tuple[str, str]] = ()
    heads: Sequence[Head] = ()
    lines: Sequence[Line] = ()
    tables: Sequence[Table] = field(default_factory=tuple)

    @property
    def heading(self) -> str:
        """The title, as long as a heading may be: a subject in it is whole among the facts."""
        return shortened(printable(self.title), _HEADING)

    @property
    def beside(self) -> bool:
        """Whether what is known of a row stands below it: a wide matrix is to be seen whole."""
        return len(self.heads) <= _FEW

    @property
    def failed(self) -> bool:
        """Whether a finding reaches the threshold."""
        return fails(self.judged.findings, self.threshold)

    @property
    def families(self) -> Sequence[str]:
        """Families that the matrix has, sorted."""
        return sorted({line.family for line in self.lines if line.family})

    @property
    def kinds(self) -> Sequence[str]:
        """Kinds of packages that the matrix has, in its order."""
        return list(dict.fromkeys(line.kind for line in self.lines))

    @property
    def directions(self) -> Sequence[Direction]:
        """The legend: directions that occur."""
        there = {cell.direction for line in self.lines for cell in line.cells}
        there |= {detail.direction for line in self.lines for detail in line.details}
        return [shown for direction, shown in SHOWN.items() if direction in there]

    def summed(
        self, findings: Sequence[Finding]
    ) -> Iterator[tuple[Sequence[Finding], Sequence[Finding]]]:
        """Findings of one rule and subject together: those to show, and those to fold away."""
        return summed(findings, _SHOWN)

    @property
    def counting(self) -> Sequence[Finding]:
        """Findings that nothing explains."""
        return [finding for finding in self.judged.findings if not finding.reason]

    @property
    def tolerated(self) -> Sequence[Finding]:
        """Findings with a reason."""
        return [finding for finding in self.judged.findings if finding.reason]

    @property
    def rules(self) -> Mapping[str, RuleText]:
        """What the rules mean."""
        return RULES

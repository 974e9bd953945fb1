"""The result of comparing a whole line: packages by images, the same for every report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.audit.findings import Finding, worst
from pipeline.drift.changes import Change
from pipeline.drift.comparison import Comparison
from pipeline.drift.images import Image

HISTORY_SCHEMA = "sm121-chain/drift-history/1"


@dataclass(frozen=True)
class Column:
    """One image of a history. `name` heads it (a stage or a tag); `parent` names the column that it
    is compared with, "" for the first one. `state` is "built", or what the chain says of a
    stage without an image of its own ("held", "upstream", …), with its `reason`; such a column has
    the image of its parent. `comparison` is with the parent, None for the first one."""

    name: str
    parent: str
    image: Image
    state: str = "built"
    reason: str = ""
    comparison: Comparison | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the column as JSON, without the changes: they are in the rows."""
        document: dict[str, Any] = {
            "name": self.name,
            "parent": self.parent or None,
            "state": self.state,
            "reason": self.reason,
            "image": self.image.to_document(),
        }
        if (found := self.comparison) is not None:
            document |= {
                "layers": {
                    "shared": len(found.shared),
                    "gone": len(found.gone),
                    "new": len(found.new),
                },
                "base_changed": found.base_changed,
                "settings": [setting.to_document() for setting in found.settings],
                "files": [file.to_document() for file in found.files],
            }
        return document


@dataclass(frozen=True)
class Row:
    """One package along a history. `versions` has one member a column, "" where it is not there;
    `changes` too: what changed from the column's parent, None for nothing."""

    kind: str
    name: str
    rank: int
    family: str
    gpu: bool
    versions: tuple[str, ...]
    changes: tuple[Change | None, ...]

    @property
    def moves(self) -> bool:
        """Whether anything about it ever changes."""
        return any(self.changes)

    def to_document(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "rank": self.rank,
            "family": self.family,
            "gpu": self.gpu,
            "versions": list(self.versions),
            "changes": [change and change.to_document() for change in self.changes],
        }


@dataclass(frozen=True)
class History:
    """A whole line, or the tags of a repository, as one matrix: packages by images.

    `subject` names it. `rows` are all packages, those that change first, by rank; every row has
    exactly one member for each of `columns`.
    """

    subject: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def worst(self) -> str | None:
        """The highest severity among the findings, None without any."""
        return worst(self.findings)

    def to_document(self) -> dict[str, Any]:
        """Return the history as one JSON object; its form is fixed by `schema`."""
        return {
            "schema": HISTORY_SCHEMA,
            "subject": self.subject,
            "worst": self.worst,
            "columns": [column.to_document() for column in self.columns],
            "rows": [row.to_document() for row in self.rows],
            "findings": [finding.to_json() for finding in self.findings],
        }

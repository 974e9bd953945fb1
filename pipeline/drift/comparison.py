"""The result of comparing two sides, the same for every way of showing it.

Everything is in a fixed order: what can hurt first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.audit.findings import Finding, worst
from pipeline.drift.changes import DIRECTIONS, Change, LoneFile, Setting
from pipeline.drift.images import Image, Layer

COMPARISON_SCHEMA = "sm121-chain/drift/1"


@dataclass(frozen=True)
class Comparison:
    """What changed from image A (`before`) to image B (`after`).

    `shared` are the layers that both have, as in B; `gone` those of A alone, `new` those of B
    alone. `base_changed` is whether the two stand on different bases (None: not known).
    `findings` are of the audit's catalogue: the changes as findings, by severity.
    """

    before: Image
    after: Image
    shared: tuple[Layer, ...] = ()
    gone: tuple[Layer, ...] = ()
    new: tuple[Layer, ...] = ()
    base_changed: bool | None = None
    changes: tuple[Change, ...] = ()
    settings: tuple[Setting, ...] = ()
    files: tuple[LoneFile, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def worst(self) -> str | None:
        """The highest severity among the findings, None without any."""
        return worst(self.findings)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of package changes by direction, only those that occur."""
        all_of = [change.direction for change in self.changes]
        return {one: all_of.count(one) for one in DIRECTIONS if one in all_of}

    def to_document(self) -> dict[str, Any]:
        """Return the comparison as one JSON object; its form is fixed by `schema`."""
        return {
            "schema": COMPARISON_SCHEMA,
            "before": self.before.to_document(),
            "after": self.after.to_document(),
            "worst": self.worst,
            "counts": dict(self.counts),
            "layers": {
                "shared": [layer.to_document() for layer in self.shared],
                "gone": [layer.to_document() for layer in self.gone],
                "new": [layer.to_document() for layer in self.new],
            },
            "base_changed": self.base_changed,
            "changes": [change.to_document() for change in self.changes],
            "settings": [setting.to_document() for setting in self.settings],
            "files": [file.to_document() for file in self.files],
            "findings": [finding.to_json() for finding in self.findings],
        }

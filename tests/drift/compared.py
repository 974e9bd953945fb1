"""Two small images, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.audit.expectation import LedgerEntry
from pipeline.drift.changes import Change
from pipeline.drift.compare import compare
from pipeline.drift.comparison import Comparison
from pipeline.drift.sides import Shared, image_side
from pipeline.oci.view import LayersView
from tests.audit.images import Content, image

Layers = Sequence[Mapping[str, Content]]


def compared(
    directory: Path,
    before: Layers,
    after: Layers,
    *,
    configs: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    ledger: tuple[LedgerEntry, ...] | None = None,
) -> Comparison:
    """Compare the images of two lists of layers, lowest first."""
    views: list[LayersView] = []
    for name, layers, config in (("a", before, configs[0]), ("b", after, configs[1])):
        (directory / name).mkdir(parents=True)
        view = image(directory / name, *layers)
        views.append(replace(view, name=name, config={**view.config, "config": config}))
    shared = Shared()
    one = image_side("a", views[0], shared)
    other = replace(image_side("b", views[1], shared, [views[0]]), ledger=ledger)
    return compare(one, other)


def moves(comparison: Comparison) -> dict[str, tuple[str, str, str]]:
    """Return (direction, before, after) of each change by name."""
    return {one.name: (one.direction, one.before, one.after) for one in comparison.changes}


def only(comparison: Comparison) -> Change:
    """Return the only change."""
    (change,) = comparison.changes
    return change

"""A drift's findings, as the formats of findings take them."""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.drift.comparison import Comparison
from pipeline.drift.images import Layer
from pipeline.drift.matrix import History
from pipeline.report.judged import DRIFT, Judged


def judged_comparison(found: Comparison) -> Judged:
    """Return the findings of two images."""
    layers = (*found.before.layers, *found.after.layers)
    return Judged(DRIFT, found.after.subject, found.before.subject, found.findings, _named(layers))


def judged_history(history: History) -> Judged:
    """Return the findings of a line."""
    layers = (layer for column in history.columns for layer in column.image.layers)
    return Judged(DRIFT, history.subject, "", history.findings, _named(layers))


def layer_words(layer: Layer) -> str:
    """Say what a layer is: its number and what made it."""
    return f"layer {layer.number}" + (f", {layer.created_by}" if layer.created_by else "")


def _named(layers: Iterable[Layer]) -> dict[str, str]:
    return {layer.digest: layer_words(layer) for layer in layers if layer.digest}

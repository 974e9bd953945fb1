"""Compare two sides: what moved, in which direction, who moved it, and who wants it otherwise."""

from __future__ import annotations

from pipeline.drift.changes import Change, Setting
from pipeline.drift.comparison import Comparison
from pipeline.drift.families import torn
from pipeline.drift.files import lone_files, owned_differences
from pipeline.drift.findings import findings
from pipeline.drift.images import Image, Layer
from pipeline.drift.libraries import libraries
from pipeline.drift.packages import Packages
from pipeline.drift.settings import settings
from pipeline.drift.sides import Side
from pipeline.drift.stages import deeds
from pipeline.drift.variables import meant


def compare(before: Side, after: Side) -> Comparison:
    """Return what changed from one side to the other."""
    found = owned_differences(before, after)
    packages = Packages(before, after, found, deeds(before, after))
    changes = [*packages.distributions(), *packages.debian()]
    old = {layer.diff_id for layer in before.image.layers}
    new = {layer.diff_id for layer in after.image.layers}
    images = bool(before.config) and bool(after.config)
    changed: tuple[Setting, ...] = ()
    if images and before.config != after.config:
        changed = settings(before.config, after.config, meant(after))
    changes += libraries(before, after, found.found, changed)
    comparison = Comparison(
        before=before.image,
        after=after.image,
        shared=tuple(layer for layer in after.image.layers if layer.diff_id in old),
        gone=tuple(layer for layer in before.image.layers if layer.diff_id not in new),
        new=tuple(layer for layer in after.image.layers if layer.diff_id not in old),
        base_changed=_base_changed(before.image, after.image),
        changes=tuple(sorted(changes, key=Change.sort_key)),
        settings=changed,
        files=lone_files(found.lone, after),
    )
    return findings(comparison, torn(before.inventory, after.inventory))


def _base_changed(before: Image, after: Image) -> bool | None:
    """Whether two images stand on different bases, None where that cannot be told.

    The base of an image of the chain are the layers below its first stage. Of others a label names
    it; without one the lowest layer tells.
    """
    if not before.layers or not after.layers:
        return None
    one, other = _base(before), _base(after)
    if one and other:
        return [layer.diff_id for layer in one] != [layer.diff_id for layer in other]
    if before.base_digest and after.base_digest:
        return before.base_digest != after.base_digest
    return before.layers[0].diff_id != after.layers[0].diff_id


def _base(image: Image) -> tuple[Layer, ...]:
    stages = [at for at, layer in enumerate(image.layers) if layer.stage not in ("", "base")]
    if stages:
        return image.layers[: stages[0]]
    return image.layers if image.layers[-1].stage == "base" else ()

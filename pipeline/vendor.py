"""A base that is an image of somebody else, made ready: brought, looked into, held to the lock."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from pipeline.base.capture import take_capture
from pipeline.base.image import BaseImage, Inventory, keep_inventory, kept_inventory
from pipeline.base.obtain import obtain_base
from pipeline.engines.schedule import Bring, Engine, Listener
from pipeline.errors import Refusal
from pipeline.graph import Step
from pipeline.lock.model import Base
from pipeline.oci.imagefile import Descriptor, ImageFile
from pipeline.oci.reading import kept_index
from pipeline.oci.registry.publish import Meter
from pipeline.oci.registry.remote import missing_layers
from pipeline.oci.registry.store import BlobStore
from pipeline.plan_base import inventory_plan
from pipeline.progress import Progress, readable
from pipeline.steps.program import StepOutput


@dataclass(frozen=True)
class Ready:
    """A base image that can be built upon; `bring` brings layers of it that must be read."""

    base: BaseImage
    bring: Bring
    warnings: list[str]


def ready_base(
    base: Base,
    root: Path,
    cache: Path,
    engine: Engine,
    meter: Meter,
    tell: Callable[[str], None],
    *,
    mirror: str = "",
    offline: bool = False,
) -> Ready:
    """Make a base image ready: its documents here, its layers known, its inventory held to the
    lock.

    `root` is where the lock lies. A layer is known by its index, from the cache or from the file
    that the lock names; without one it must be read once. `tell` is told what is downloaded, and
    why. At its first use the inventory is captured; what the lock says of it must be so. Raises
    Refusal when it is not, or when the image is not the locked one; OutsideTrouble.
    """
    store, indexes = BlobStore(cache), cache / "indexes"
    obtained = obtain_base(base, store, meter, mirror=mirror, offline=offline)
    image, warnings = obtained.image, obtained.warnings
    take_capture(base, root, image, indexes)
    for layer in image.layers:  # what stands there and is damaged would be believed by its name
        if store.path(layer.digest).exists() and not store.has(layer.digest, layer.size):
            store.path(layer.digest).unlink()

    def bring(wanted: Collection[Descriptor], meter: Meter, why: str) -> None:
        missing = [layer for layer in missing_layers(image, store) if layer in wanted]
        if missing:
            size = readable(sum(layer.size for layer in missing))
            total = len(set(image.layers))
            tell(f"{len(missing)} of the {total} layers of {base.image} come ({size}): {why}")
            obtained.bring(missing, meter)

    def needed(meter: Meter, why: str) -> Bring:
        return lambda digests: bring([one for one in image.layers if one.digest in digests],
                                     meter, why)  # fmt: skip

    inventory = kept_inventory(base, cache)
    if inventory is None:
        unknown = [one for one in image.layers if kept_index(one.digest, indexes) is None]
        bring(unknown, meter, "each must be read once to know what is in it")
        inventory = _capture(base, image, store, engine, needed(meter, "they hold metadata"))
        warnings.append(
            f"first use of {base.image}: {len(inventory)} distributions captured;"
            f" the lock names {len(base.inventory)} of them"
        )
    _check(base, inventory)
    return Ready(
        BaseImage(image, inventory),
        needed(Progress(), "a step reads files of them"),  # the display is the steps' own then
        warnings,
    )


def _capture(
    base: Base, image: ImageFile, store: BlobStore, engine: Engine, bring: Bring
) -> Inventory:
    plan, last = inventory_plan(base, image)
    outputs = engine.run(plan, lambda sha256: store.path(f"sha256:{sha256}"), _Silent(), bring)
    found = outputs[last].facts["distributions"]
    return keep_inventory(base, store.cache, ((name, version) for name, version in found))


def _check(base: Base, inventory: Inventory) -> None:
    """Hold an image to what the lock expects in it."""
    found: dict[str, list[str]] = {}
    for name, version in inventory:
        found.setdefault(name, []).append(version)
    wrong = [
        f"{name}: expected {version}, found {', '.join(found.get(name, ['none']))}"
        for name, version in base.inventory
        if found.get(name) != [version]
    ]
    if wrong:
        raise Refusal(
            f"{base.image} does not hold what the lock expects in it",
            details=wrong,
            hint=f"correct bases.{base.name} in the lock: digest or inventory",
        )


class _Silent(Listener):
    def started(self, step: Step) -> None:
        """Show nothing: the display of the build begins after it."""

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        """Show nothing."""

"""A base that is an image of somebody else, made ready: brought, looked into, held to the lock."""

from __future__ import annotations

from pathlib import Path

from pipeline.base.image import BaseImage, Inventory, keep_inventory, kept_inventory
from pipeline.base.obtain import obtain_base
from pipeline.engines.schedule import Engine, Listener
from pipeline.errors import Refusal
from pipeline.graph import Step
from pipeline.lock.model import Base
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.registry.publish import Meter
from pipeline.oci.registry.store import BlobStore
from pipeline.plan_base import inventory_plan
from pipeline.steps.program import StepOutput


def ready_base(
    base: Base,
    cache: Path,
    engine: Engine,
    meter: Meter,
    *,
    mirror: str = "",
    offline: bool = False,
) -> tuple[BaseImage, list[str]]:
    """Bring a base image into the cache and return what is known of it, with warnings.

    At its first use its inventory is captured; what the lock says of it must be so. Raises Refusal
    when it is not, or when the image is not the locked one; OutsideTrouble.
    """
    store = BlobStore(cache)
    obtained = obtain_base(base, store, meter, mirror=mirror, offline=offline)
    inventory = kept_inventory(base, cache)
    warnings = obtained.warnings
    if inventory is None:
        inventory = _capture(base, obtained.image, store, engine)
        warnings.append(
            f"first use of {base.image}: {len(inventory)} distributions captured;"
            f" the lock names {len(base.inventory)} of them"
        )
    _check(base, inventory)
    return BaseImage(obtained.image, inventory), warnings


def _capture(base: Base, image: ImageFile, store: BlobStore, engine: Engine) -> Inventory:
    plan, last = inventory_plan(base, image)
    outputs = engine.run(plan, lambda sha256: store.path(f"sha256:{sha256}"), _Silent())
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

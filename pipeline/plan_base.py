"""The steps of a base: of Debian packages and wheels, or of the layers of somebody's image."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from pipeline.graph import FileInput, Plan, Step
from pipeline.lock.model import Base, Lock, LockedWheel
from pipeline.oci.imagefile import ImageFile
from pipeline.wheels.known import FILE_CONFLICT

CONFLICTS, INDEX, INVENTORY = "wheel-conflicts", "image-index", "image-inventory"
SYSTEM = "system-layer"
# A wheel of this size (bytes) has a layer of its own in the base, the others share one. Decided by
# size alone: a new stage that moves a package must not change how the base is cut.
OWN_LAYER = 16_000_000


def wheel_steps(
    base: Base,
    wheels: Sequence[LockedWheel],
    settings: Mapping[str, int],
    target: Mapping[str, Any],
    known: Sequence[Mapping[str, str]],
) -> list[Step]:
    """Return the steps of a base that is made; all but the one of the conflicts make a layer.

    `settings` are those that every new layer is written with: epoch and level.
    """
    debs = base.debs
    debian = Step(
        "base/debian",
        "debian-layer",
        {
            **settings,
            "architecture": base.target.architecture,
            "debs": [deb.to_json() for deb in debs],
        },
        tuple(FileInput(deb.filename, deb.sha256, deb.size) for deb in debs),
        weight=sum(deb.size for deb in debs) * 4,  # xz: much work for its bytes
    )
    conflicts = Step(
        "base/conflicts",
        CONFLICTS,
        {"wheels": wheel_params(wheels), "target": target, "known": known},
        file_inputs(wheels),
    )
    # Only who leaves a path to another has to wait for it: the others are written as they are.
    giving_way = {
        canonicalize_name(one["distribution"]) for one in known if one["rule"] == FILE_CONFLICT
    }
    small = [wheel for wheel in wheels if (wheel.size or 0) < OWN_LAYER]
    groups = [("shared", small)] if small else []
    groups += [(wheel.name, [wheel]) for wheel in wheels if (wheel.size or 0) >= OWN_LAYER]
    layers = [
        Step(
            f"base/wheels/{name}",
            "wheel-layer",
            {
                **settings,
                "title": f"base: {name if len(members) == 1 else 'smaller wheels'}",
                "wheels": wheel_params(members),
                "target": target,
                "known": known,
            },
            file_inputs(members),
            (conflicts.id,) if any(wheel.name in giving_way for wheel in members) else (),
            weight=sum(wheel.size or 0 for wheel in members),
        )
        for name, members in groups
    ]
    system = Step(
        "base/system",
        SYSTEM,
        {**settings, "site_packages": base.site_packages},
        after=(debian.id, *(layer.id for layer in layers), conflicts.id),
    )
    return [debian, conflicts, *layers, system]


def image_steps(image: ImageFile) -> list[Step]:
    """Return the steps of a base that is an image: each looks into one of its layers.

    The layer itself is their input by digest, and that of every step that reads files of it.
    """
    return [
        Step(
            f"base/layer-{number:03}",
            INDEX,
            {
                "digest": layer.digest,
                "diff_id": diff_id,
                "size": layer.size,
                "media_type": layer.media_type,
                "created_by": created_by,
            },
            (FileInput(f"layer {number} of the base", _hex(layer.digest), layer.size),),
            weight=layer.size,
        )
        for number, (layer, diff_id, created_by) in enumerate(
            zip(image.layers, image.diff_ids, image.created_by, strict=True)
        )
    ]


def inventory_plan(base: Base, image: ImageFile) -> tuple[Plan, str]:
    """Return a plan that captures the inventory of a base image, and its step that tells it."""
    layers = image_steps(image)
    last = Step(
        "base/inventory",
        INVENTORY,
        {"sites": [base.site_packages]},
        tuple(file for layer in layers for file in layer.files),
        tuple(layer.id for layer in layers),
    )
    return Plan({step.id: step for step in (*layers, last)}, ()), last.id


def held_by(
    lock: Lock, base: Base, groups: Sequence[str], inventory: Iterable[tuple[str, str]]
) -> tuple[LockedWheel, ...]:
    """Return every distribution of an image with these groups, sorted by name.

    What a base image brings by its inventory has no file: its entry has no sha256. A pin that it
    meets already changes nothing.
    """
    chosen = {name: LockedWheel(name, version, "", None, "") for name, version in inventory}
    for removal in lock.removals:
        if removal.base == base.name and removal.group in ("", *groups):
            chosen.pop(removal.distribution, None)
    for wheel in lock.select(base.name, groups):
        there = chosen.get(wheel.name)
        if there is None or Version(there.version) != Version(wheel.version):
            chosen[wheel.name] = wheel
    return tuple(sorted(chosen.values()))


def wheel_params(wheels: Sequence[LockedWheel]) -> list[dict[str, Any]]:
    """Return wheels as JSON, as steps take them."""
    return [
        {
            "name": wheel.name,
            "version": wheel.version,
            "filename": wheel.filename,
            "sha256": wheel.sha256,
        }
        for wheel in wheels
    ]


def file_inputs(wheels: Sequence[LockedWheel]) -> tuple[FileInput, ...]:
    """Return wheels as the files that a step reads."""
    return tuple(FileInput(wheel.filename, wheel.sha256, wheel.size) for wheel in wheels)


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")

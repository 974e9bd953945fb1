"""The toolbox: the image in which steps run on a Dagger engine. A line of its own, made by us.

It is Debian's Python with the libraries that the steps import, put together by the same steps and
the same assembler as the base of the chain, for the engine's own architecture. Its form is a tar of
an OCI image layout (image-spec 1.1, image-layout.md), which an engine imports without a registry.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from pipeline.engines.schedule import Engine, Listener
from pipeline.engines.unused import TOOLBOX, use
from pipeline.errors import OutsideTrouble
from pipeline.graph import Plan, Step
from pipeline.lock.model import Base, Lock
from pipeline.oci.image import (
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Image,
    Layer,
    Runtime,
    build_image,
    canonical,
    sha256,
)
from pipeline.plan_base import CONFLICTS, SYSTEM, wheel_steps
from pipeline.progress import Progress
from pipeline.steps.layers import BLOB, layer_of
from pipeline.steps.program import StepOutput
from pipeline.transfer.fetch import fetch_all
from pipeline.transfer.workspace import workspace
from pipeline.wheels.house import Wheelhouse

LINE = "toolbox"
NAME = "sm121-toolbox"
_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class _Silent(Listener):
    def started(self, step: Step) -> None:
        """The build that the toolbox is for has a display of its own."""

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        """Nothing is shown."""


def toolbox_plan(lock: Lock, base: Base) -> Plan:
    """Return the steps of the toolbox: those of a base, but for CUDA's places."""
    steps = wheel_steps(
        base,
        lock.select(base.name),
        {"epoch": lock.epoch, "level": lock.zstd_level},
        base.target.to_json(),
        [known.to_json() for known in lock.known],
    )
    return Plan({step.id: step for step in steps if step.program != SYSTEM}, ())


def base_for(lock: Lock, platform: str) -> Base:
    """Return the base of the toolbox for a platform such as `linux/amd64`.

    Raises OutsideTrouble for an engine on which no toolbox runs.
    """
    for base in lock.bases.values():
        if base.platform == platform.removesuffix("/v8"):
            return base
    known = ", ".join(sorted(base.platform for base in lock.bases.values()))
    raise OutsideTrouble(
        f"there is no toolbox for an engine on {platform}", hint=f"use an engine on {known}"
    )


def make_toolbox(
    lock: Lock,
    base: Base,
    house: Wheelhouse,
    engine: Engine,
    *,
    offline: bool = False,
    debian_mirror: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Return the archive of the toolbox below the cache, made if it is not there.

    Its name says what it is made of, so it is found again. `engine` is one that needs no toolbox.
    Raises what `fetch_all` and the steps
    raise.
    """
    plan = toolbox_plan(lock, base)
    wheels = lock.select(base.name)
    fetch_all(
        [*base.debs, *wheels],
        house,
        python=base.python,
        dated=f"as of {lock.exclude_newer}",
        offline=offline,
        debian_mirror=debian_mirror,
        progress=progress,
    )
    outputs = engine.run(plan, house.path, _Silent())
    parts = [outputs[step.id] for step in plan.steps.values() if step.program != CONFLICTS]
    image = toolbox_image(lock, base, [layer_of(part) for part in parts])
    place = house.cache / TOOLBOX / f"{image.digest.removeprefix('sha256:')}.tar"
    if not place.exists():
        with workspace(house.cache) as space:
            new = space / place.name
            with new.open("wb") as out:
                layers = [(layer_of(part), part.directory / BLOB) for part in parts]
                write_oci_archive(image, layers, out)
            place.parent.mkdir(parents=True, exist_ok=True)
            new.chmod(0o644)  # an engine knows a file by its mode too
            new.replace(place)
    use(place)
    return place


def toolbox_image(lock: Lock, base: Base, layers: Sequence[Layer]) -> Image:
    """Return config and manifest of the toolbox."""
    return build_image(
        layers,
        Runtime(env={"PATH": _PATH, "LANG": "C.UTF-8"}),
        epoch=lock.epoch,
        architecture=base.target.architecture,
        annotations={"org.opencontainers.image.title": NAME},
    )


def write_oci_archive(image: Image, layers: Sequence[tuple[Layer, Path]], out: BinaryIO) -> None:
    """Write an image as a tar of an OCI layout. The bytes depend on the image alone."""
    index = {
        "schemaVersion": 2,
        "mediaType": MEDIA_TYPE_INDEX,
        "manifests": [
            {
                "mediaType": MEDIA_TYPE_MANIFEST,
                "digest": image.digest,
                "size": len(image.manifest),
                "annotations": {"org.opencontainers.image.ref.name": NAME},
            }
        ],
    }
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in (
            ("oci-layout", _LAYOUT),
            ("index.json", canonical(index)),
            (_blob(image.digest), image.manifest),
            (_blob(sha256(image.config)), image.config),
        ):
            _add(tar, name, io.BytesIO(data), len(data))
        for layer, path in layers:
            with path.open("rb") as file:
                _add(tar, _blob(layer.digest), file, layer.size)


def _blob(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _add(tar: tarfile.TarFile, name: str, data: BinaryIO, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    tar.addfile(member, data)

"""Push an image by its digest: blobs first, then the manifest; no tag is written or moved.

Everything is asked for before it is sent, and read back byte for byte after; a run that was
interrupted is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pipeline.oci.imagefile import Descriptor, ImageFile
from pipeline.oci.references import Reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.push import How, push_blob
from pipeline.oci.registry.sessions import Sessions
from pipeline.oci.registry.store import BlobStore
from pipeline.oci.registry.together import side_by_side


class Meter(Protocol):
    """Is told how far a transfer is; calls come from several threads."""

    def begin(self, label: str, files: int, size: int) -> None: ...
    def moved(self, count: int) -> None: ...
    def done(self, files: int = 1) -> None: ...


@dataclass(frozen=True)
class Pushed:
    """What a push did: the image by digest, and its blobs as (number, bytes) by what became of
    them."""

    reference: Reference
    blobs: dict[How, tuple[int, int]]


def push_image(
    image: ImageFile,
    blob: Callable[[Descriptor], Path],
    repository: Repository,
    meter: Meter,
    *,
    sources: Sequence[str] = (),
    store: BlobStore,
) -> Pushed:
    """Push an image whose layers `blob` finds, or brings; it is asked only for what must be sent.

    `sources` are repositories of the same registry that may have some of the blobs. Raises Refusal
    when a file, or what the registry then serves, is not what its digest says; OutsideTrouble.
    """
    layers = list(dict.fromkeys(image.layers))
    config = image.config_descriptor
    sessions = Sessions(store.cache)
    meter.begin("pushing", len(layers) + 2, sum(layer.size for layer in layers) + config.size)

    def send(one: Descriptor, place: Callable[[], Path], places: Sequence[str]) -> How:
        how = push_blob(
            repository,
            one.digest,
            place,
            one.size,
            moved=meter.moved,
            sources=places,
            sessions=sessions,
        )
        meter.done()
        return how

    # The config goes alone: who may not push is told so once, and before anything large moves.
    if not store.has(config.digest, config.size):
        store.put(config.digest, image.config)
    outcomes = [(config, send(config, lambda: store.path(config.digest), ()))]
    found = side_by_side(
        lambda layer: send(layer, lambda: blob(layer), sources), layers, repository.wire
    )
    outcomes += zip(layers, found, strict=True)
    digest = repository.put_manifest(image.manifest, image.media_type)
    meter.done()
    counts = {
        how: (len(sizes), sum(sizes))
        for how in How
        for sizes in [[one.size for one, outcome in outcomes if outcome is how]]
    }
    return Pushed(repository.reference.at(digest=digest), counts)

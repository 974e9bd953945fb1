"""Layers that a layout names and does not hold: they are in the registry that its base came from.

A build does not download the layers of a base image that no stage reads (image-layout.md: blobs may
be missing, and come from a store outside then).
"""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.errors import Refusal
from pipeline.oci.imagefile import Descriptor, ImageFile
from pipeline.oci.reading import Layout, kept_index
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.remote import RemoteBlob
from pipeline.oci.registry.store import BlobStore

BASE_NAME = "org.opencontainers.image.base.name"


class Elsewhere:
    """Finds such layers: in the cache, or in the repository of the base.

    `source` is that repository's reference, where it is known; without it an image's own annotation
    says it.
    """

    def __init__(self, cache: Path, source: str = ""):
        self._store = BlobStore(cache)
        self._indexes = cache / "indexes"
        self._source = source
        self._repository: Repository | None = None

    def blob(self, image: ImageFile, layer: Descriptor) -> RemoteBlob:
        """Return a layer to be read; it comes when that is done. Raises Refusal."""
        index = kept_index(layer.digest, self._indexes)
        return RemoteBlob(self._of(image, layer), layer, self._store, index)

    def path(self, image: ImageFile, layout: Layout, layer: Descriptor) -> Path:
        """Return the place of a layer of an image in a layout; bring it if it is nowhere here.

        Raises Refusal, OutsideTrouble.
        """
        if layout.holds(layer):
            return layout.blob(layer.digest, layer.size)
        if self._store.has(layer.digest, layer.size):
            return self._store.path(layer.digest)
        return self.blob(image, layer).path()

    def _of(self, image: ImageFile, layer: Descriptor) -> Repository:
        if self._repository is None:
            annotations = json.loads(image.manifest).get("annotations") or {}
            name = self._source or str(annotations.get(BASE_NAME, ""))
            if "/" not in name:  # a base of our own making was pulled from nowhere
                raise Refusal(
                    f"{image.name}: blob {layer.digest} is missing",
                    hint="make or copy the layout again",
                )
            self._repository = Repository(parse_reference(name))
        return self._repository

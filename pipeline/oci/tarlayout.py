"""An OCI layout in a tar, as `podman save --format oci-archive` and skopeo write it."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import UsageError
from pipeline.oci.blob import Blob
from pipeline.oci.imagefile import config_of, read_image
from pipeline.oci.index import LayerIndex
from pipeline.oci.layout import REF_NAME
from pipeline.oci.members import INDEX, Archive
from pipeline.oci.reading import layer_index
from pipeline.oci.selection import (
    Platform,
    images_below,
    parse_manifests,
    parse_object,
    the_one,
)
from pipeline.oci.view import LayerInfo, LayersView


def open_tar_layout(
    archive: Archive,
    name: str,
    reference: str,
    platform: Platform,
    index_cache: Path | None,
) -> LayersView:
    """Open the image of the layout that has the tag and is for the platform.

    Raises UsageError when there is no such image, Refusal when the archive is damaged.
    """
    file = parse_object(archive.small(archive.part(INDEX)), f"{name}: {INDEX}")
    entries = parse_manifests(file, f"{name}: {INDEX}")
    tags = {str((one.get("annotations") or {}).get(REF_NAME, "")) for one in entries} - {""}
    chosen = [
        one
        for one in entries
        if not reference or (one.get("annotations") or {}).get(REF_NAME) == reference
    ]
    if not chosen or (not reference and len(tags) > 1):
        raise UsageError(
            f"{name}: " + ("no such image in it" if reference else "several images, name one"),
            hint="tags there: " + (", ".join(sorted(tags)) or "none"),
        )
    found = {
        digest: manifest
        for one in chosen
        for digest, manifest in images_below(one, platform, archive.document, name)
    }
    digest, manifest = the_one(found, platform, name)
    described = config_of(parse_object(manifest, name), name)
    image = read_image(name, digest, manifest, archive.document({"digest": described.digest}))
    blobs: list[tuple[Blob, LayerIndex]] = []
    layers = []
    for number, (layer, diff_id) in enumerate(zip(image.layers, image.diff_ids, strict=True)):
        part = archive.stored(layer.digest)
        index = layer_index(part, layer.digest, index_cache)
        if index.diff_id != diff_id or part.size != layer.size:
            raise archive.refusal(f"layer {number} is not as its config and manifest say")
        blobs.append((part, index))
        layers.append(LayerInfo(index.digest, index.diff_id, image.created_by[number]))
    return LayersView(
        name,
        blobs,
        layers,
        image.document,
        config_digest=described.digest,
        manifest_digest=digest,
    )

"""Read images out of an OCI image layout (image-spec, image-layout.md) of any maker.

Every blob is held against its digest before it is believed. An index is followed to the manifest of
the wanted platform; attestations are no images.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pipeline.errors import Refusal, UsageError
from pipeline.oci.blob import Blob
from pipeline.oci.content import index_blob
from pipeline.oci.imagefile import Descriptor, ImageFile, config_of, read_image
from pipeline.oci.index import LayerIndex
from pipeline.oci.kept import keep, kept
from pipeline.oci.layout import REF_NAME
from pipeline.oci.selection import (
    Platform,
    images_below,
    parse_manifests,
    parse_object,
    the_one,
)
from pipeline.oci.texts import Texts
from pipeline.oci.view import LayerInfo, LayersView

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_AGAIN = "make or copy the layout again"


def open_layout(
    root: Path,
    tag: str = "",
    *,
    platform: Platform | None = None,
    index_cache: Path | None = None,
    elsewhere: Callable[[ImageFile, Descriptor], Blob] | None = None,
) -> LayersView:
    """Open the image of a layout that has the tag and is for the platform (linux/arm64).

    Without a tag the layout must hold one tag at most. Layer indexes are taken from, and put into,
    `index_cache`. `elsewhere` gives the layers that the layout names and does not hold. Raises
    UsageError when there is no such layout or tag, Refusal when the layout is damaged or has no
    image, or several, for the platform.
    """
    image, layout = find_image(root, tag, platform=platform)
    blobs: list[tuple[Blob, LayerIndex]] = []
    layers: list[LayerInfo] = []
    for number, (layer, diff_id) in enumerate(zip(image.layers, image.diff_ids, strict=True)):
        if elsewhere is None or layout.holds(layer):
            blob: Blob = layout.blob(layer.digest, layer.size)
        else:
            blob = elsewhere(image, layer)
        index = layer_index(blob, layer.digest, index_cache)
        if index.diff_id != diff_id:
            raise Refusal(
                f"{image.name}: layer {number} unpacks to {index.diff_id}, not as configured"
            )
        blobs.append((blob, index))
        layers.append(LayerInfo(index.digest, index.diff_id, image.created_by[number]))
    return LayersView(
        image.name,
        blobs,
        layers,
        image.document,
        config_digest=image.config_descriptor.digest,
        manifest_digest=image.digest,
        texts=Texts(index_cache) if index_cache else None,
    )


def find_image(
    root: Path, tag: str = "", *, platform: Platform | None = None
) -> tuple[ImageFile, Layout]:
    """Find the image of a layout that has the tag and is for the platform; see `open_layout`."""
    platform = platform or Platform()
    layout = Layout(root)
    name = f"oci:{root}" + (f":{tag}" if tag else "")
    found = {
        digest: manifest
        for entry in layout.entries(tag)
        for digest, manifest in images_below(entry, platform, layout.document, f"oci:{root}")
    }
    digest, manifest = the_one(found, platform, name)
    described = config_of(parse_object(manifest, name), name)
    config = layout.document({"digest": described.digest, "size": described.size})
    return read_image(name, digest, manifest, config), layout


class Layout:
    """The files of a layout; what is wrong with them is raised as Refusal."""

    def __init__(self, root: Path):
        if not (root / "index.json").is_file():
            raise UsageError(
                f"oci:{root}: no OCI image layout there (it has no index.json)",
                hint="name the directory that holds index.json, or build first",
            )
        self.root = root

    def entries(self, tag: str) -> list[Mapping[str, Any]]:
        """Return the descriptors of index.json that a tag means; all of them without tags."""
        file = self.root / "index.json"
        entries = parse_manifests(parse_object(file.read_bytes(), str(file)), str(file))
        tags = sorted({name for entry in entries if (name := _tag(entry))})
        if not tag and len(tags) <= 1:
            return entries
        chosen = [entry for entry in entries if tag and _tag(entry) == tag]
        if not chosen:
            raise UsageError(
                f"oci:{self.root}: " + (f"no tag {tag!r}" if tag else "several tags, name one"),
                hint="tags there: " + (", ".join(tags) or "none"),
            )
        return chosen

    def document(self, descriptor: Mapping[str, Any]) -> bytes:
        """Return a small blob after holding it against its digest."""
        path = self.blob(descriptor.get("digest"), descriptor.get("size"))
        data = path.read_bytes()
        found = "sha256:" + hashlib.sha256(data).hexdigest()
        if found != descriptor["digest"]:
            raise Refusal(f"{path}: holds {found}, not what its name says", hint=_AGAIN)
        return data

    def holds(self, layer: Descriptor) -> bool:
        """Whether a blob is there at all. A layout may leave some to a store outside of it."""
        return (self.root / "blobs" / "sha256" / layer.digest.removeprefix("sha256:")).is_file()

    def blob(self, digest: Any, size: Any) -> Path:
        """Return the path of a blob that is there in the size that its descriptor says."""
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise Refusal(f"oci:{self.root}: {digest!r} is no sha256 digest", hint=_AGAIN)
        path = self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")
        if not path.is_file():
            raise Refusal(f"oci:{self.root}: blob {digest} is missing", hint=_AGAIN)
        if size != path.stat().st_size:
            raise Refusal(f"{path}: size differs from its descriptor's", hint=_AGAIN)
        return path


def layer_index(blob: Blob, digest: str, cache: Path | None) -> LayerIndex:
    """Return the index of a layer from the cache, or make it and keep it there, with its texts.

    Raises Refusal when the blob is not what `digest` says.
    """
    known = kept_index(digest, cache)
    if known is not None:
        return known
    index = index_blob(blob, digest, Texts(cache) if cache else None)
    keep(cache, digest, index.to_bytes())
    if cache is not None:
        _open[cache, digest] = index
    return index


def keep_index(digest: str, data: Callable[[], bytes], cache: Path) -> None:
    """Put the index of a layer, as `to_bytes` gives it, into the cache, unless one is there."""
    if kept(cache, digest) is None:
        keep(cache, digest, data())


def kept_index(digest: str, cache: Path | None) -> LayerIndex | None:
    """Return the index of a layer if the cache has it. Images that are open at the same time share
    the indexes of their layers."""
    if cache is None:
        return None
    if (shared := _open.get((cache, digest))) is not None:
        return shared
    data = kept(cache, digest)
    if data is not None:
        with suppress(ValueError):  # the format of another release of this program
            index = LayerIndex.from_bytes(data)
            _open[cache, digest] = index
            return index
    return None


# As long as an image that is open holds them.
_open: WeakValueDictionary[tuple[Path, str], LayerIndex] = WeakValueDictionary()


def _tag(entry: Mapping[str, Any]) -> str:
    return str((entry.get("annotations") or {}).get(REF_NAME, ""))

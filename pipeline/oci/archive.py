"""Read images out of `docker save` archives, as docker, podman and skopeo write them.

Format: the "Combined Image JSON + Filesystem Changeset" of Docker's image specification v1.2: a tar
with manifest.json, one config and one tar a layer. Layers may be compressed, and may be links to
another's. An OCI layout in a tar, without manifest.json, is read as what it is.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.documents import Malformed, parse_json
from pipeline.errors import Refusal, UsageError
from pipeline.oci.blob import Blob
from pipeline.oci.content import index_blob, media_type_of
from pipeline.oci.imagefile import made_by
from pipeline.oci.index import MEDIA_TYPE_TAR, LayerIndex
from pipeline.oci.members import MANIFEST, Archive
from pipeline.oci.reading import layer_index
from pipeline.oci.selection import Platform
from pipeline.oci.shape import check_config
from pipeline.oci.tarlayout import open_tar_layout
from pipeline.oci.view import LayerInfo, LayersView

_HEX = re.compile(r"[0-9a-f]{64}")
_BLOB = re.compile(r"blobs/sha256/([0-9a-f]{64})")
_OLD = "repositories"
_AGAIN = "save or copy the image again"


@dataclass(frozen=True)
class _Image:
    """An entry of manifest.json with its parsed config."""

    number: int
    tags: Sequence[str]
    layers: Sequence[str]
    config: Mapping[str, Any]
    digest: str


def open_archive(
    path: Path,
    reference: str = "",
    *,
    platform: Platform | None = None,
    index_cache: Path | None = None,
) -> LayersView:
    """Open the image of an archive that has the reference and is for the platform (linux/arm64).

    `reference` is "repository:tag", or "@0", the place in the archive, as skopeo has it; without
    one the archive must hold one image for the platform. Raises UsageError when there is no such
    archive or image, Refusal when it is damaged.
    """
    platform = platform or Platform()
    name = f"docker-archive:{path}" + (f":{reference}" if reference else "")
    archive = Archive(path)
    if archive.is_layout:
        return open_tar_layout(archive, name, reference, platform, index_cache)
    images = _images(archive)
    chosen = [one for one in images if not reference or _has(one, reference)]
    if not chosen:
        there = ", ".join(tag for one in images for tag in one.tags) or "none; @0 is the first"
        raise UsageError(f"{name}: no such image in it", hint=f"tags there: {there}")
    fitting = [one for one in chosen if platform.fits(one.config)]
    if len(fitting) != 1:
        raise Refusal(
            f"{name}: {'no image' if not fitting else f'{len(fitting)} images'} for {platform}",
            hint="name one by its tag, or as @0, @1 …" if fitting else "save it for that platform",
        )
    return _view(archive, name, fitting[0], index_cache)


def _json(archive: Archive, name: object) -> tuple[Any, str]:
    """Return a parsed member, and the digest of its bytes."""
    part = archive.part(name)
    data = archive.small(part)
    found = hashlib.sha256(data).hexdigest()
    stem = posixpath.basename(part.name).removesuffix(".json")
    if _HEX.fullmatch(stem) and stem != found:
        raise archive.refusal(f"{part.name} holds sha256:{found}, not what its name says")
    try:
        return parse_json(data), f"sha256:{found}"
    except Malformed as error:
        raise archive.refusal(f"{part.name}: {error}") from error


def _images(archive: Archive) -> list[_Image]:
    """Return every image that manifest.json lists."""
    if archive.has(_OLD) and not archive.has(MANIFEST):
        raise UsageError(
            f"docker-archive:{archive.path}: it has {_OLD} and no {MANIFEST}: Docker before 1.10"
            " saved it, whose images have no digests of their layers",
            hint="save it again: docker load -i FILE, then docker save -o NEW IMAGE",
        )
    if not archive.has(MANIFEST):
        raise UsageError(
            f"docker-archive:{archive.path}: it has no {MANIFEST}",
            hint="it is neither a `docker save` archive nor an OCI layout in a tar",
        )
    entries, _ = _json(archive, MANIFEST)
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise archive.refusal(f"{MANIFEST} is no list of images")
    images = []
    for number, entry in enumerate(entries):
        config, digest = _json(archive, entry.get("Config"))
        layers, tags = entry.get("Layers") or [], entry.get("RepoTags") or []
        if not isinstance(config, dict) or not isinstance(layers, list):
            raise archive.refusal(f"{MANIFEST}: entry {number} is no image")
        texts = [str(tag) for tag in tags] if isinstance(tags, list) else []
        images.append(_Image(number, texts, layers, config, digest))
    return images


def _has(image: _Image, reference: str) -> bool:
    if reference.startswith("@"):
        return reference == f"@{image.number}"
    tagged = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
    # Some tools spell out the registry that a short name means.
    return any(tag == tagged or tag.endswith(f"/{tagged}") for tag in image.tags)


def _view(archive: Archive, name: str, image: _Image, index_cache: Path | None) -> LayersView:
    diff_ids: list[str] = check_config(image.config, name, _AGAIN)["rootfs"]["diff_ids"]
    history = made_by(image.config, len(image.layers))
    if len(diff_ids) != len(image.layers):
        raise Refusal(f"{name}: {len(image.layers)} layers, but {len(diff_ids)} diff ids")
    blobs: list[tuple[Blob, LayerIndex]] = []
    layers = []
    for number, (member, diff_id) in enumerate(zip(image.layers, diff_ids, strict=True)):
        part = archive.part(member)
        # A plain layer's digest is its diff id, and in an OCI layout a blob's name is its digest:
        # then its index can be kept. Of any other one the digest is not known before it is read.
        named = _BLOB.fullmatch(part.name)
        if media_type_of(part) == MEDIA_TYPE_TAR:
            index = layer_index(part, diff_id, index_cache)
        elif named:
            index = layer_index(part, f"sha256:{named[1]}", index_cache)
        else:
            index = index_blob(part)
        if index.diff_id != diff_id:
            raise Refusal(f"{name}: layer {number} unpacks to {index.diff_id}, not as configured")
        blobs.append((part, index))
        layers.append(LayerInfo(index.digest, index.diff_id, history[number]))
    return LayersView(name, blobs, layers, image.config, config_digest=image.digest)


def archive_blobs(path: Path) -> Callable[[str], Blob]:
    """Return where the blobs of an archive are, by digest.

    Docker from 25 keeps an OCI layout in its archives, and so the blobs as they came. Raises
    Refusal for what is not there: older archives hold unpacked layers, and no manifest.
    """
    archive = Archive(path)

    def blob(digest: str) -> Blob:
        return archive.stored(digest)

    return blob

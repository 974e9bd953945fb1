"""Read images out of an OCI image layout (image-spec, image-layout.md) of any maker.

Every blob is held against its digest before it is believed. An index is followed to the manifest of
the wanted platform; attestations are no images.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.documents import Malformed, parse_json
from pipeline.errors import Refusal, UsageError
from pipeline.oci.blob import Blob
from pipeline.oci.content import index_blob
from pipeline.oci.index import LayerIndex
from pipeline.oci.layout import REF_NAME
from pipeline.oci.view import LayerInfo, LayersView

_INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_ATTESTATION = "vnd.docker.reference.type"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_DEPTH = 4  # indexes inside indexes; more is a fault or an attack
_AGAIN = "make or copy the layout again"


@dataclass(frozen=True)
class Platform:
    """What an image is for, as OCI spells it; a variant of None fits any of `variants`."""

    os: str = "linux"
    architecture: str = "arm64"
    variants: tuple[str, ...] = ("", "v8")  # arm64 without a variant means v8

    def fits(self, found: Mapping[str, Any]) -> bool:
        """Whether a platform object of a descriptor or a config is this one."""
        return (
            found.get("os") == self.os
            and found.get("architecture") == self.architecture
            and (found.get("variant") or "") in self.variants
        )

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


def open_layout(
    root: Path,
    tag: str = "",
    *,
    platform: Platform | None = None,
    index_cache: Path | None = None,
) -> LayersView:
    """Open the image of a layout that has the tag and is for the platform (linux/arm64).

    Without a tag the layout must hold one tag at most. Layer indexes are taken from, and put into,
    `index_cache`. Raises UsageError when there is no such layout or tag, Refusal when the layout is
    damaged or has no image, or several, for the platform.
    """
    platform = platform or Platform()
    layout = _Layout(root)
    name = f"oci:{root}" + (f":{tag}" if tag else "")
    found = {
        digest: manifest
        for entry in layout.entries(tag)
        for digest, manifest in layout.manifests(entry, platform)
    }
    if len(found) != 1:
        raise Refusal(
            f"{name}: {'no image' if not found else f'{len(found)} images'} for {platform}",
            hint="name a tag that holds one" if found else "build or copy it for that platform",
            details=sorted(found),
        )
    ((digest, manifest),) = found.items()
    return _view(layout, name, digest, manifest, index_cache)


class _Layout:
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
        entries = _manifests(_parse(file, file.read_bytes()), str(file))
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

    def manifests(
        self, descriptor: Mapping[str, Any], platform: Platform, depth: int = 0
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield (digest, manifest) of every image below a descriptor that fits the platform."""
        if _ATTESTATION in (descriptor.get("annotations") or {}):
            return
        given = descriptor.get("platform")
        is_index = descriptor.get("mediaType") in _INDEX_TYPES
        if given and not is_index and not platform.fits(given):
            return
        document = self.document(descriptor)
        if is_index or document.get("mediaType") in _INDEX_TYPES:
            if depth >= _MAX_DEPTH:
                raise Refusal(f"oci:{self.root}: indexes inside indexes without end")
            for inner in _manifests(document, str(descriptor["digest"])):
                yield from self.manifests(inner, platform, depth + 1)
        elif (
            "config" in document
            and "layers" in document
            and (given or platform.fits(self.document(document["config"])))
        ):
            yield descriptor["digest"], document

    def document(self, descriptor: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a JSON blob after holding it against its digest."""
        path = self.blob(descriptor)
        data = path.read_bytes()
        found = "sha256:" + hashlib.sha256(data).hexdigest()
        if found != descriptor["digest"]:
            raise Refusal(f"{path}: holds {found}, not what its name says", hint=_AGAIN)
        return _parse(path, data)

    def blob(self, descriptor: Mapping[str, Any]) -> Path:
        """Return the path of a blob that is there in the size that its descriptor says."""
        digest = descriptor.get("digest")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise Refusal(f"oci:{self.root}: {digest!r} is no sha256 digest", hint=_AGAIN)
        path = self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")
        if not path.is_file():
            raise Refusal(f"oci:{self.root}: blob {digest} is missing", hint=_AGAIN)
        if descriptor.get("size") != path.stat().st_size:
            raise Refusal(f"{path}: size differs from its descriptor's", hint=_AGAIN)
        return path


def _view(
    layout: _Layout,
    name: str,
    digest: str,
    manifest: Mapping[str, Any],
    index_cache: Path | None,
) -> LayersView:
    config = layout.document(manifest["config"])
    try:
        diff_ids: Sequence[str] = config["rootfs"]["diff_ids"]
        descriptors: Sequence[Mapping[str, Any]] = manifest["layers"]
        history = made_by(config, len(descriptors))
    except (KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{name}: its config is no image config: {error!r}", hint=_AGAIN) from error
    if len(diff_ids) != len(descriptors):
        raise Refusal(f"{name}: {len(descriptors)} layers, but {len(diff_ids)} diff ids")
    blobs: list[tuple[Blob, LayerIndex]] = []
    layers: list[LayerInfo] = []
    for number, descriptor in enumerate(descriptors):
        blob = layout.blob(descriptor)
        index = layer_index(blob, descriptor["digest"], index_cache)
        if index.diff_id != diff_ids[number]:
            raise Refusal(f"{name}: layer {number} unpacks to {index.diff_id}, not as configured")
        blobs.append((blob, index))
        layers.append(LayerInfo(index.digest, index.diff_id, history[number]))
    return LayersView(
        name,
        blobs,
        layers,
        config,
        config_digest=manifest["config"]["digest"],
        manifest_digest=digest,
    )


def made_by(config: Mapping[str, Any], layers: int) -> list[str]:
    """Return what made each layer by a config's history; "" for all where the counts differ.

    Raises AttributeError or TypeError for a history that is no list of objects.
    """
    history = [step for step in config.get("history") or () if not step.get("empty_layer")]
    if len(history) != layers:
        return [""] * layers
    return [str(step.get("created_by", "")) for step in history]


def layer_index(blob: Blob, digest: str, cache: Path | None) -> LayerIndex:
    """Return the index of a layer from the cache, or make it.

    A cache entry is the sha256 of what follows, in hex, a line end, and the index; one that is not
    what its first line says is never used, but made again. Raises Refusal when the blob is not what
    `digest` says.
    """
    kept = cache / digest.replace(":", "-") if cache else None
    if kept is not None and kept.is_file():
        first, _, data = kept.read_bytes().partition(b"\n")
        if first == hashlib.sha256(data).hexdigest().encode():
            with suppress(ValueError):  # the format of another release of this program
                return LayerIndex.from_bytes(data)
    index = index_blob(blob)
    if index.digest != digest:
        raise Refusal(f"{blob}: holds {index.digest}, not what its name says", hint=_AGAIN)
    if kept is not None:
        with suppress(OSError):  # a cache that takes nothing: the index is made again next time
            _keep(kept, index.to_bytes())
    return index


def _keep(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _parse(path: Path, data: bytes) -> Mapping[str, Any]:
    try:
        document = parse_json(data)
    except Malformed as error:
        raise Refusal(f"{path}: {error}", hint=_AGAIN) from error
    if not isinstance(document, dict):
        raise Refusal(f"{path}: no JSON object", hint=_AGAIN)
    return document


def _manifests(document: Mapping[str, Any], where: str) -> list[Mapping[str, Any]]:
    entries = document.get("manifests")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Refusal(f"{where}: no list of manifests", hint=_AGAIN)
    return entries


def _tag(entry: Mapping[str, Any]) -> str:
    return str((entry.get("annotations") or {}).get(REF_NAME, ""))

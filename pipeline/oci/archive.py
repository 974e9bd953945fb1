"""Read images out of `docker save` archives, as docker, podman and skopeo write them.

Format: the "Combined Image JSON + Filesystem Changeset" of Docker's image specification v1.2: a tar
with manifest.json, one config and one tar a layer. Members are found by their headers alone; a
layer is read where it lies. Layers may be compressed, and may be links to another's.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.documents import Malformed, parse_json
from pipeline.errors import Refusal, UsageError
from pipeline.oci.blob import Blob, Part
from pipeline.oci.content import index_blob, media_type_of
from pipeline.oci.imagefile import made_by
from pipeline.oci.index import MEDIA_TYPE_TAR, LayerIndex
from pipeline.oci.reading import layer_index
from pipeline.oci.selection import Platform
from pipeline.oci.tarstream import FILE, HARDLINK, SYMLINK, TarFault, read_tar
from pipeline.oci.view import LayerInfo, LayersView

_MANIFEST = "manifest.json"
_MAX_JSON = 16 * 1024 * 1024
_MAX_LINKS = 8
_HEX = re.compile(r"[0-9a-f]{64}")
_PACKED = {b"\x1f\x8b": "gunzip", b"\x28\xb5": "zstd -d", b"BZ": "bunzip2", b"\xfd7": "unxz"}
_AGAIN = "save or copy the image again"


class _Member(NamedTuple):
    offset: int
    size: int
    link: str


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
    archive = _Archive(path)
    images = archive.images()
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


class _Archive:
    """The members of the tar; what is wrong with them is raised as Refusal."""

    def __init__(self, path: Path):
        self.path = path
        try:
            with path.open("rb") as file:
                packed = _PACKED.get(file.read(2))
                if packed:
                    raise UsageError(
                        f"{path}: the archive itself is compressed, so no part of it can be found",
                        hint=f"unpack it first: {packed} {path.name}",
                    )
                file.seek(0)
                self._members = {
                    posixpath.normpath(member.name): _Member(
                        member.offset, member.size, _target(member.name, member.type, member.link)
                    )
                    for member, _ in read_tar(file)
                    if member.type in (FILE, HARDLINK, SYMLINK)
                }
        except TarFault as error:
            raise self.refusal(f"no readable archive: {error}") from error
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}", hint="name a `docker save` file"
            ) from error

    def refusal(self, problem: str) -> Refusal:
        return Refusal(f"docker-archive:{self.path}: {problem}", hint=_AGAIN)

    def part(self, name: object) -> Part:
        """Return a member's place, links followed inside the archive."""
        if not isinstance(name, str):
            raise self.refusal(f"manifest.json names {name!r}, which is no file")
        found = posixpath.normpath(name)
        for _ in range(_MAX_LINKS):
            member = self._members.get(found)
            if member is None:
                raise self.refusal(f"{name} is not in it")
            if not member.link:
                return Part(self.path, member.offset, member.size, found)
            found = member.link
        raise self.refusal(f"{name} is a link without end")

    def stored(self, digest: str) -> Part:
        """Return the place of a blob that is kept under its digest."""
        name = f"blobs/sha256/{digest.removeprefix('sha256:')}"
        if name not in self._members:
            raise Refusal(
                f"digest-gone: docker-archive:{self.path} has no blob {digest}: an archive of"
                " unpacked layers holds neither a manifest nor the bytes that it names",
                hint="copy the image into a layout: skopeo copy --preserve-digests … oci:DIR",
            )
        return self.part(name)

    def json(self, name: object) -> tuple[Any, str]:
        """Return a parsed member, and the digest of its bytes."""
        part = self.part(name)
        if part.size > _MAX_JSON:
            raise self.refusal(f"{part.name} has {part.size} bytes, which no config needs")
        with part.open_read() as file:
            data = file.read()
        found = hashlib.sha256(data).hexdigest()
        stem = posixpath.basename(part.name).removesuffix(".json")
        if _HEX.fullmatch(stem) and stem != found:
            raise self.refusal(f"{part.name} holds sha256:{found}, not what its name says")
        try:
            return parse_json(data), f"sha256:{found}"
        except Malformed as error:
            raise self.refusal(f"{part.name}: {error}") from error

    def images(self) -> list[_Image]:
        """Return every image that manifest.json lists."""
        if _MANIFEST not in self._members:
            raise UsageError(
                f"docker-archive:{self.path}: it has no {_MANIFEST}",
                hint="it is no `docker save` archive; unpack an OCI layout and name it as oci:DIR",
            )
        entries, _ = self.json(_MANIFEST)
        if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
            raise self.refusal(f"{_MANIFEST} is no list of images")
        images = []
        for number, entry in enumerate(entries):
            config, digest = self.json(entry.get("Config"))
            layers, tags = entry.get("Layers") or [], entry.get("RepoTags") or []
            if not isinstance(config, dict) or not isinstance(layers, list):
                raise self.refusal(f"{_MANIFEST}: entry {number} is no image")
            texts = [str(tag) for tag in tags] if isinstance(tags, list) else []
            images.append(_Image(number, texts, layers, config, digest))
        return images


def _target(name: str, kind: bytes, link: str) -> str:
    """Return the member that a link names: a symbolic one from its directory, a hard one whole."""
    if kind == FILE:
        return ""
    path = link if kind == HARDLINK else posixpath.join(posixpath.dirname(name), link)
    return posixpath.normpath(path)


def _has(image: _Image, reference: str) -> bool:
    if reference.startswith("@"):
        return reference == f"@{image.number}"
    tagged = reference if ":" in reference.rpartition("/")[2] else f"{reference}:latest"
    # Some tools spell out the registry that a short name means.
    return any(tag == tagged or tag.endswith(f"/{tagged}") for tag in image.tags)


def _view(archive: _Archive, name: str, image: _Image, index_cache: Path | None) -> LayersView:
    try:
        diff_ids = [str(one) for one in image.config["rootfs"]["diff_ids"]]
        history = made_by(image.config, len(image.layers))
    except (KeyError, TypeError, AttributeError) as error:
        raise Refusal(f"{name}: its config is no image config: {error!r}", hint=_AGAIN) from error
    if len(diff_ids) != len(image.layers):
        raise Refusal(f"{name}: {len(image.layers)} layers, but {len(diff_ids)} diff ids")
    blobs: list[tuple[Blob, LayerIndex]] = []
    layers = []
    for number, (member, diff_id) in enumerate(zip(image.layers, diff_ids, strict=True)):
        part = archive.part(member)
        # A plain layer's digest is its diff id, so its index can be kept under that.
        plain = media_type_of(part) == MEDIA_TYPE_TAR
        index = layer_index(part, diff_id, index_cache) if plain else index_blob(part)
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
    archive = _Archive(path)

    def blob(digest: str) -> Blob:
        return archive.stored(digest)

    return blob

"""An image as its own documents: manifest and config, read together and found to agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.errors import Refusal
from pipeline.oci.image import MEDIA_TYPE_MANIFEST, Below, Image, fingerprint
from pipeline.oci.selection import parse_object
from pipeline.oci.shape import check_config

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_AGAIN = "make or copy the image again"


class Descriptor(NamedTuple):
    """What names a blob: media type, "sha256:<hex>", and size in bytes."""

    media_type: str
    digest: str
    size: int


@dataclass(frozen=True)
class ImageFile:
    """Manifest and config of an image, byte for byte, and what they say of its layers.

    `diff_ids` and `created_by` (its line in the history, "" where that does not fit) are by layer.
    """

    name: str
    digest: str
    manifest: bytes
    config: bytes
    media_type: str
    config_descriptor: Descriptor
    layers: Sequence[Descriptor]
    diff_ids: Sequence[str]
    created_by: Sequence[str]
    document: Mapping[str, Any]

    @property
    def below(self) -> Below:
        """The image as another one may stand on it."""
        return Below(self.document, parse_object(self.manifest, self.name)["layers"])

    @property
    def as_it_is(self) -> Image:
        """The image's own bytes."""
        return Image(self.config, self.manifest, self.digest, self.fingerprint, self.media_type)

    @property
    def fingerprint(self) -> str:
        """See `oci.image.fingerprint`."""
        return fingerprint(self.document)


def config_of(manifest: Mapping[str, Any], name: str) -> Descriptor:
    """Return a manifest's descriptor of its config. Raises Refusal."""
    return _descriptor(manifest.get("config"), f"{name}: its config")


def read_image(name: str, digest: str, manifest: bytes, config: bytes) -> ImageFile:
    """Read an image's documents, whose digests the caller has checked. Raises Refusal."""
    outer = parse_object(manifest, f"{name}: its manifest")
    inner = check_config(parse_object(config, f"{name}: its config"), name, _AGAIN)
    listed = outer.get("layers")
    if not isinstance(listed, list):
        raise Refusal(f"{name}: its manifest lists no layers", hint=_AGAIN)
    layers = [_descriptor(one, f"{name}: layer {number}") for number, one in enumerate(listed)]
    diff_ids: list[str] = inner["rootfs"]["diff_ids"]
    if len(diff_ids) != len(layers):
        raise Refusal(f"{name}: {len(layers)} layers, but {len(diff_ids)} diff ids")
    return ImageFile(
        name=name,
        digest=digest,
        manifest=manifest,
        config=config,
        media_type=str(outer.get("mediaType") or MEDIA_TYPE_MANIFEST),
        config_descriptor=config_of(outer, name),
        layers=layers,
        diff_ids=diff_ids,
        created_by=made_by(inner, len(layers)),
        document=inner,
    )


def made_by(config: Mapping[str, Any], layers: int) -> list[str]:
    """Return what made each layer by a config's history; "" for all where the counts differ."""
    history = [step for step in config.get("history") or () if not step.get("empty_layer")]
    if len(history) != layers:
        return [""] * layers
    return [step.get("created_by") or "" for step in history]


def _descriptor(value: Any, where: str) -> Descriptor:
    if not isinstance(value, dict):
        raise Refusal(f"{where}: no descriptor", hint=_AGAIN)
    digest, size = value.get("digest"), value.get("size")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise Refusal(f"{where}: {digest!r} is no sha256 digest", hint=_AGAIN)
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise Refusal(f"{where}: {size!r} is no size", hint=_AGAIN)
    return Descriptor(str(value.get("mediaType") or ""), digest, size)

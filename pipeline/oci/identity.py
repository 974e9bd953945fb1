"""Which image is it? One image has other ids in every store; its config and content tell.

A manifest's digest changes with compression and media types, an archive has none at all, and a
runtime's image id is the config's digest in one store and the manifest's in another. So an id is
always shown with its kind, and only ids of one kind are compared.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from pipeline.oci.image import fingerprint
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.view import LayersView

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class Relation(Enum):
    """What two identities are to each other; the value is for people."""

    SAME_IMAGE = "same image: equal config digest"
    SAME_CONTENT = "same content: equal fingerprint; config digests differ, or one is unknown"
    SAME_FILES = "same files, run otherwise: equal diff ids, other fingerprint"
    DIFFERENT = "different"
    UNKNOWN = "unknown: a side shows no id that the other one has"


@dataclass(frozen=True)
class Identity:
    """Ids of one image, each "sha256:<hex>", "" for what a store does not show."""

    name: str
    config: str = ""
    manifest: str = ""
    fingerprint: str = ""
    diff_ids: tuple[str, ...] = ()

    @classmethod
    def of(cls, image: ImageFile) -> Identity:
        """Return the identity of an image by its own documents."""
        return cls(
            name=image.name,
            config=image.config_descriptor.digest,
            manifest=image.digest,
            fingerprint=image.fingerprint,
            diff_ids=tuple(image.diff_ids),
        )

    def lines(self) -> list[str]:
        """Return every id with its kind, and what is not known as such."""
        kinds = ("fingerprint", "config", "manifest")
        return [f"{kind} {getattr(self, kind) or 'unknown'}" for kind in kinds]


def known_digest(text: str | None) -> str:
    """Return a digest as a store shows it; "" for `<none>`, nothing, and what is no digest."""
    return text if text and _DIGEST.fullmatch(text) else ""


def identify(view: LayersView) -> Identity:
    """Return the identity of an opened image."""
    return Identity(
        name=view.name,
        config=known_digest(view.config_digest),
        manifest=known_digest(view.manifest_digest),
        fingerprint=fingerprint(view.config),
        diff_ids=tuple(layer.diff_id for layer in view.layers),
    )


def compare(one: Identity, other: Identity) -> Relation:
    """Compare two images by what both sides show: config, then fingerprint, then diff ids.

    Two sides that show nothing are not equal: that is unknown.
    """
    if one.config and one.config == other.config:
        return Relation.SAME_IMAGE
    if one.fingerprint and one.fingerprint == other.fingerprint:
        return Relation.SAME_CONTENT
    if one.diff_ids and one.diff_ids == other.diff_ids:
        return Relation.SAME_FILES
    if one.manifest and one.manifest == other.manifest:
        return Relation.SAME_IMAGE
    # Other manifests alone show nothing: compression is enough to make them differ.
    shown = [
        (one.config, other.config),
        (one.fingerprint, other.fingerprint),
        (one.diff_ids, other.diff_ids),
    ]
    return Relation.DIFFERENT if any(all(pair) for pair in shown) else Relation.UNKNOWN

"""What was compared: an image with its layers, an unpacked tree, or a lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# What was compared: an image, an unpacked tree (no layers, no config), a lock (distributions only).
IMAGE, TREE, LOCK = "image", "tree", "lock"


@dataclass(frozen=True)
class Layer:
    """A layer of an image. `number` counts from 0, the lowest; `digest` is of the blob as it lies
    in the image ("" where that has none), `size` its bytes (0: unknown), `created_by` its line in
    the history. `stage` is the stage of the chain that wrote it, "" for any other layer."""

    number: int
    digest: str
    diff_id: str
    size: int = 0
    created_by: str = ""
    stage: str = ""

    def to_document(self) -> dict[str, Any]:
        """Return the layer as JSON."""
        return {
            "number": self.number,
            "digest": self.digest,
            "diff_id": self.diff_id,
            "size": self.size,
            "created_by": self.created_by,
            "stage": self.stage,
        }


@dataclass(frozen=True)
class Image:
    """What was compared. `subject` is how the user named it; `kind` is IMAGE, TREE or LOCK.

    `digest` (of the manifest), `config` and `fingerprint` are "sha256:<hex>", "" where unknown.
    `title` and `version` are the image's labels: of the chain's images the tag and the stage.
    `base_name` and `base_digest` are its labels too, "" without.
    """

    subject: str
    kind: str = IMAGE
    digest: str = ""
    config: str = ""
    fingerprint: str = ""
    title: str = ""
    version: str = ""
    architecture: str = ""
    base_name: str = ""
    base_digest: str = ""
    layers: tuple[Layer, ...] = ()
    distributions: int = 0

    def to_document(self) -> dict[str, Any]:
        """Return the image as JSON."""
        return {
            "subject": self.subject,
            "kind": self.kind,
            "digest": self.digest,
            "config": self.config,
            "fingerprint": self.fingerprint,
            "title": self.title,
            "version": self.version,
            "architecture": self.architecture,
            "base": {"name": self.base_name, "digest": self.base_digest},
            "layers": [layer.to_document() for layer in self.layers],
            "distributions": self.distributions,
        }

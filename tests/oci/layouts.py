"""OCI image layouts as builders write them, for tests."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
Descriptor = dict[str, Any]


def tar(files: Mapping[str, bytes]) -> bytes:
    """Return an uncompressed layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def digest(data: bytes) -> str:
    """Return "sha256:<hex>"."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layout:
    """Collects blobs in a directory; `finish` writes index.json."""

    def __init__(self, root: Path):
        self.root = root
        self.blobs = root / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)

    def blob(self, data: bytes, media_type: str = LAYER) -> Descriptor:
        """Store bytes and return their descriptor."""
        (self.blobs / hashlib.sha256(data).hexdigest()).write_bytes(data)
        return {"mediaType": media_type, "digest": digest(data), "size": len(data)}

    def json(self, document: object, media_type: str) -> Descriptor:
        """Store a JSON document and return its descriptor."""
        return self.blob(json.dumps(document).encode(), media_type)

    def image(
        self,
        layers: Sequence[bytes] = (tar({"etc/os-release": b"ID=debian\n"}),),
        *,
        platform: Mapping[str, str] | None = None,
        diff_ids: Sequence[str] | None = None,
        history: Sequence[Mapping[str, Any]] | None = None,
    ) -> Descriptor:
        """Store an image of uncompressed layers and return its descriptor, without a platform."""
        config: dict[str, Any] = {
            **(platform or {"os": "linux", "architecture": "arm64"}),
            "rootfs": {"type": "layers", "diff_ids": diff_ids or [digest(one) for one in layers]},
            "history": history or [{"created_by": f"step {n}"} for n in range(len(layers))],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.json(config, CONFIG),
            "layers": [self.blob(one) for one in layers],
        }
        return self.json(manifest, MANIFEST)

    def index(self, entries: Sequence[Descriptor], media_type: str = INDEX) -> Descriptor:
        """Store an image index and return its descriptor."""
        document = {"schemaVersion": 2, "mediaType": media_type, "manifests": entries}
        return self.json(document, media_type)

    def finish(self, *entries: Descriptor) -> Path:
        """Write index.json with these entries and return the layout's directory."""
        (self.root / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}', encoding="utf-8")
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        (self.root / "index.json").write_text(json.dumps(document), encoding="utf-8")
        return self.root


def tagged(descriptor: Descriptor, tag: str) -> Descriptor:
    """Return a descriptor with a tag."""
    return {**descriptor, "annotations": {"org.opencontainers.image.ref.name": tag}}

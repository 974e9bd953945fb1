"""A reader of OCI layouts that shares no code with the program: plain tarfile and JSON."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

REF = "org.opencontainers.image.ref.name"


@dataclass
class ReadImage:
    """An image as its files say: merged regular files by path, raw layers, manifest, config."""

    files: dict[str, bytes]
    layers: list[bytes]
    manifest: dict[str, Any]
    config: dict[str, Any]

    @property
    def env(self) -> dict[str, str]:
        return dict(item.split("=", 1) for item in self.config["config"]["Env"])

    def read(self, path: str) -> bytes:
        return self.files[path]

    def verify(self) -> None:
        """Assert that digests, sizes, diff-ids and history belong together."""
        assert len(self.layers) == len(self.manifest["layers"]) == len(self.config["history"])
        for data, layer, diff_id in zip(
            self.layers, self.manifest["layers"], self.config["rootfs"]["diff_ids"], strict=True
        ):
            assert "sha256:" + hashlib.sha256(data).hexdigest() == layer["digest"]
            assert len(data) == layer["size"]
            assert "sha256:" + hashlib.sha256(plain(data)).hexdigest() == diff_id


def plain(blob: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(blob, read_across_frames=True).read()


def read_image(layout: Path, tag: str) -> ReadImage:
    """Read an image by its tag; every blob is looked up by digest and checked."""
    index = json.loads((layout / "index.json").read_bytes())
    (entry,) = [m for m in index["manifests"] if m["annotations"][REF] == tag]
    manifest = json.loads(_blob(layout, entry["digest"]))
    config = json.loads(_blob(layout, manifest["config"]["digest"]))
    layers = [_blob(layout, layer["digest"]) for layer in manifest["layers"]]
    files: dict[str, bytes] = {}
    for blob in layers:
        new: dict[str, bytes] = {}
        with tarfile.open(fileobj=io.BytesIO(plain(blob))) as tar:
            for member in tar:
                parent, _, base = member.name.rpartition("/")
                if base.startswith(".wh."):
                    gone = f"{parent}/{base[4:]}".lstrip("/")
                    files = {
                        path: data
                        for path, data in files.items()
                        if path != gone and not path.startswith(gone + "/")
                    }
                elif member.isfile():
                    stream = tar.extractfile(member)
                    assert stream is not None
                    new[member.name] = stream.read()
        files.update(new)
    return ReadImage(files, layers, manifest, config)


def _blob(layout: Path, digest: str) -> bytes:
    data = (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()
    assert "sha256:" + hashlib.sha256(data).hexdigest() == digest
    return data

"""Small images for tests: layers as mappings from path to content, and installed distributions."""

from __future__ import annotations

import _imp
import base64
import hashlib
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.audit.expectation import Expectation, LockedDistribution, marker_environment
from pipeline.oci.layer import LayerWriter
from pipeline.oci.view import LayerInfo, LayersView

SITE = "usr/local/lib/python3.12/dist-packages"
ENVIRONMENT = marker_environment("3.12.3", "aarch64")


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


GONE = None  # as content: the layer removes the path
Content = bytes | str | Link | None


def record_row(path: str, data: bytes) -> str:
    """Return a RECORD row as installers write it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(data)}\n"


def compiled(source: str, *, mtime: int = 0, hashed: str = "", magic: int = 0x0A0D0DA7) -> bytes:
    """Return a compiled file of a source (PEP 552): by time, or by hash if "checked" or
    "unchecked". Layers of `image` give every file the time 0."""
    data = source.encode()
    if hashed:
        flags, rest = 1 | 2 * (hashed == "checked"), _imp.source_hash(magic, data)
    else:
        flags, rest = 0, struct.pack("<II", mtime, len(data))
    return struct.pack("<II", magic, flags) + rest + b"code"


def distribution(
    name: str,
    version: str,
    files: Mapping[str, str] | None = None,
    *,
    directory: str = "",
    requires: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    metadata: str | None = None,
    record: str | None = None,
    site: str = SITE,
) -> dict[str, Content]:
    """Return an installed distribution; `files` are relative to site-packages, `extra` to its
    dist-info. `metadata` and `record` stand in place of what they would otherwise be."""
    info = (directory or f"{name.replace('-', '_')}-{version}") + ".dist-info"
    if metadata is None:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        metadata += "".join(f"Requires-Dist: {one}\n" for one in requires)
    contents = {path: text.encode() for path, text in (files or {}).items()}
    for path, text in {"METADATA": metadata, "INSTALLER": "pip\n", **(extra or {})}.items():
        contents[f"{info}/{path}"] = text.encode()
    if record is None:
        record = "".join(record_row(path, data) for path, data in contents.items())
        record += f"{info}/RECORD,,\n"
    contents[f"{info}/RECORD"] = record.encode()
    return {f"{site}/{path}": data for path, data in contents.items()}


def image(directory: Path, *layers: Mapping[str, Content]) -> LayersView:
    """Write layers, lowest first, and return the image that they make."""
    blobs, infos = [], []
    for number, contents in enumerate(layers):
        blob = directory / f"{len(list(directory.iterdir()))}.tar.zst"
        with LayerWriter(blob, epoch=0, level=1) as writer:
            for path, content in contents.items():
                if content is None:
                    writer.add_whiteout(path)
                elif isinstance(content, Link):
                    writer.add_symlink(path, content.target)
                else:
                    data = content.encode() if isinstance(content, str) else content
                    writer.add_file(path, data, len(data))
            index = writer.close()
        blobs.append((blob, index))
        infos.append(LayerInfo(index.digest, index.diff_id, f"step {number}"))
    return LayersView("image", blobs, infos, {"architecture": "arm64"})


def expect(pins: Mapping[str, str] | None = None, **more: object) -> Expectation:
    """Return an expectation for the target of these images."""
    locked = None
    if pins is not None:
        locked = tuple(LockedDistribution(name, version) for name, version in pins.items())
    return Expectation(ENVIRONMENT, "the lock", locked, **more)  # type: ignore[arg-type]

"""`docker save` archives as their makers write them, for tests."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.oci.makelayer import Item, file, hardlink, symlink, tar


def config_of(layers: Sequence[bytes], **more: Any) -> bytes:
    """Return the config of an image of plain layers."""
    diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    document = {
        "os": "linux",
        "architecture": "arm64",
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created_by": f"step {number}"} for number in range(len(layers))],
        **more,
    }
    return json.dumps(document).encode()


def _manifest(config: str, layers: Sequence[str], tags: Sequence[str] = ("case:1",)) -> Item:
    entry = {"Config": config, "RepoTags": list(tags), "Layers": list(layers)}
    return file("manifest.json", json.dumps([entry]))


def docker_legacy(config: bytes, layers: Sequence[bytes]) -> list[Item]:
    """Docker until 24: a directory a layer; equal layers are links to the first one."""
    name = hashlib.sha256(config).hexdigest() + ".json"
    items, first = [file(name, config)], dict[bytes, int]()
    for number, layer in enumerate(layers):
        there = first.setdefault(layer, number)
        path = f"{number}/layer.tar"
        link = symlink(path, f"../{there}/layer.tar")
        items += [file(f"{number}/VERSION", "1.0"), link if there != number else file(path, layer)]
    return [*items, _manifest(name, [f"{number}/layer.tar" for number in range(len(layers))])]


def docker_25(config: bytes, layers: Sequence[bytes]) -> list[Item]:
    """Docker from 25: an OCI layout with a manifest.json besides."""
    paths = [f"blobs/sha256/{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    name = f"blobs/sha256/{hashlib.sha256(config).hexdigest()}"
    blobs = dict(zip(paths, layers, strict=True)) | {name: config}
    items = [file(path, data) for path, data in blobs.items()]
    return [*items, file("oci-layout", '{"imageLayoutVersion":"1.0.0"}'), _manifest(name, paths)]


def podman(config: bytes, layers: Sequence[bytes]) -> list[Item]:
    """podman and skopeo: layers by diff id, and the old names as links to them."""
    paths = [f"{hashlib.sha256(layer).hexdigest()}.tar" for layer in layers]
    name = hashlib.sha256(config).hexdigest() + ".json"
    items = [file(path, data) for path, data in dict(zip(paths, layers, strict=True)).items()]
    items += [symlink(f"{number}/layer.tar", f"../{path}") for number, path in enumerate(paths)]
    return [*items, file(name, config), _manifest(name, paths)]


def hard_linked(config: bytes, layers: Sequence[bytes]) -> list[Item]:
    """A tar that was unpacked and packed again: equal files became hard links."""
    legacy = docker_legacy(config, layers)
    return [
        hardlink(item.name, item.target.removeprefix("../"))
        if item.kind == tarfile.SYMTYPE
        else item
        for item in legacy
    ]


Maker = Callable[[bytes, Sequence[bytes]], list[Item]]
MAKERS: dict[str, Maker] = {
    "docker until 24": docker_legacy,
    "docker from 25": docker_25,
    "podman": podman,
    "packed again": hard_linked,
}


def write(path: Path, items: Sequence[Item]) -> Path:
    """Write an archive."""
    path.write_bytes(tar(items))
    return path

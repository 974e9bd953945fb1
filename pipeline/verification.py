"""What is published, against what the lock builds: manifest, annotations, config, every layer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pipeline.oci.imagefile import ImageFile
from pipeline.oci.registry.client import Repository

_NONE = "absent"


@dataclass(frozen=True)
class Compared:
    """One thing that was compared: what, whether it is as it should be, and how it is."""

    what: str
    is_good: bool
    how: str

    def __str__(self) -> str:
        return f"{self.what}: {self.how}"


def compare_published(published: ImageFile, built: ImageFile) -> Iterator[Compared]:
    """Compare two images part by part, whatever the whole says."""
    yield _pair("manifest", published.digest, built.digest)
    outer, wanted = json.loads(published.manifest), json.loads(built.manifest)
    yield from _keys("annotation", outer.get("annotations"), wanted.get("annotations"))
    yield _pair("config", published.config_descriptor.digest, built.config_descriptor.digest)
    if published.config != built.config:
        yield from _keys("config", _flat(published.document), _flat(built.document))
    yield _pair("fingerprint", published.fingerprint, built.fingerprint)
    for number, (there, here) in enumerate(zip_longest(published.layers, built.layers)):
        yield _pair(
            f"layer {number}", there.digest if there else _NONE, here.digest if here else _NONE
        )


def check_blobs(repository: Repository, image: ImageFile) -> Iterator[Compared]:
    """Ask whether the registry really has every layer, in its size."""
    for number, layer in enumerate(image.layers):
        size = repository.blob_size(layer.digest)
        if size != layer.size:
            said = "not there" if size is None else f"{size} bytes, not {layer.size}"
            yield Compared(f"blob of layer {number}", is_good=False, how=said)


def _pair(what: str, there: str, here: str) -> Compared:
    if there == here:
        return Compared(what, is_good=True, how=f"{there} as built")
    return Compared(what, is_good=False, how=f"published {there}, built {here}")


def _keys(kind: str, there: Any, here: Any) -> Iterator[Compared]:
    left: Mapping[str, Any] = there or {}
    right: Mapping[str, Any] = here or {}
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield _pair(f"{kind} {key}", str(left.get(key, _NONE)), str(right.get(key, _NONE)))


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with the keys of its `config` object beside its own, without its layers."""
    flat = {key: value for key, value in config.items() if key not in ("config", "rootfs")}
    return flat | {f"config.{key}": value for key, value in (config.get("config") or {}).items()}

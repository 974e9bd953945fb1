"""A base that is an image of somebody else: what is known of it, once it has been looked into."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.lock.model import Base
from pipeline.oci.image import canonical
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.store import BlobStore
from pipeline.oci.selection import Platform

Inventory = tuple[tuple[str, str], ...]
"""(normalized name, version) of every distribution, sorted."""


@dataclass(frozen=True)
class BaseImage:
    """The documents of a base image, and the inventory that was captured at its first use."""

    image: ImageFile
    inventory: Inventory


def platform_of(base: Base) -> Platform:
    """Return the platform of a base as images are asked for it."""
    system, _, architecture = base.platform.partition("/")
    variants = ("", "v8") if architecture == "arm64" else ("",)
    return Platform(system, architecture, variants)


def known_base(base: Base, cache: Path) -> BaseImage | None:
    """Return what the cache knows of a base image; None before its first use, or for another kind.

    Uses no network.
    """
    inventory = kept_inventory(base, cache) if base.image else None
    store = BlobStore(cache)
    if inventory is None or not store.has(base.digest):
        return None
    reference = parse_reference(base.image).at(digest=base.digest)
    # What a client of HTTP imports is much, and only images of a registry need it.
    from pipeline.oci.registry.remote import find_kept

    image = find_kept(reference, platform=platform_of(base), store=store)
    return BaseImage(image, inventory) if image is not None else None


def kept_inventory(base: Base, cache: Path) -> Inventory | None:
    """Return the inventory that was captured of a base image, if it was."""
    try:
        found = json.loads(_place(base, cache).read_bytes())
        return tuple((str(name), str(version)) for name, version in found)
    except (OSError, ValueError, TypeError):
        return None


def keep_inventory(base: Base, cache: Path, inventory: Iterable[tuple[str, str]]) -> Inventory:
    """Keep an inventory under the digest of the image that it was captured of."""
    captured = tuple(sorted(inventory))
    path = _place(base, cache)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(canonical([list(pair) for pair in captured]) + b"\n")
    Path(name).replace(path)
    return captured


def _place(base: Base, cache: Path) -> Path:
    return cache / "inventories" / f"{base.digest.removeprefix('sha256:')}-{base.name}.json"

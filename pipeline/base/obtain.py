"""Bring a base image by its locked digest: from its registry, a mirror, a layout or an archive.

The digest decides, wherever it comes from. Its tag is asked for only to say that it has moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.base.image import platform_of
from pipeline.errors import ChainError, OutsideTrouble, Refusal, UsageError
from pipeline.lock.model import Base
from pipeline.oci.archive import archive_blobs
from pipeline.oci.blob import Blob, opened
from pipeline.oci.imagefile import Descriptor, ImageFile, config_of, read_image
from pipeline.oci.references import Reference, parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.publish import Meter
from pipeline.oci.registry.remote import find_remote, missing_layers, pull_layers
from pipeline.oci.registry.store import BlobStore
from pipeline.oci.registry.wire import Patience, Wire
from pipeline.oci.selection import images_below, parse_object, the_one

_CHUNK = 1 << 20
_ONCE = Patience(connect=5, read=10, tries=1)


@dataclass
class Obtained:
    """The documents of a base image, a way to its layers, and what there is to say of it.

    `bring` puts layers of it into the store, those that are not there.
    """

    image: ImageFile
    bring: Callable[[Collection[Descriptor], Meter], None]
    warnings: list[str] = field(default_factory=list)


def obtain_base(
    base: Base, store: BlobStore, meter: Meter, *, mirror: str = "", offline: bool = False
) -> Obtained:
    """Bring manifest and config of a base image into the store; layers come when asked for.

    `mirror` is a reference in another registry, oci:DIR, or docker-archive:FILE; "" is the image's
    own registry. Raises Refusal when the digest is gone or came with other bytes, or is for another
    platform; OutsideTrouble when it cannot be had.
    """
    reference = parse_reference(base.image).at(tag=parse_reference(base.image).tag)
    local = _local(mirror)
    if local is not None:
        image = _documents(base, local, mirror, store, meter)

        def copy(layers: Collection[Descriptor], meter: Meter) -> None:
            _copy_layers(image, layers, local, mirror, store, meter)

        return Obtained(image, copy)
    place = _mirrored(base, mirror) if mirror else reference
    repository = _Offline(place) if offline else Repository(place)
    image = find_remote(
        repository, place.at(digest=base.digest), platform=platform_of(base), store=store
    )

    def pull(layers: Collection[Descriptor], meter: Meter) -> None:
        missing = [layer for layer in missing_layers(image, store) if layer in layers]
        if missing and offline:
            raise OutsideTrouble(
                f"{len(missing)} layers of {base.image} must be read, are not in {store.cache},"
                " and --offline forbids fetching",
                hint="run it once where there is a network",
            )
        pull_layers(repository, image, store, meter, missing)

    warnings = [] if offline or mirror or not reference.tag else _moved(base, reference, image)
    return Obtained(image, pull, warnings)


class _Offline(Repository):
    def send(self, *args: object, **more: object) -> object:  # type: ignore[override]
        raise OutsideTrouble(
            f"{self.reference.name} is not in the cache, and --offline forbids fetching",
            hint="run it once where there is a network",
        )


def _mirrored(base: Base, mirror: str) -> Reference:
    place = parse_reference(mirror.removeprefix("docker://"))
    if place.digest and place.digest != base.digest:
        raise UsageError(
            f"--mirror {mirror}: names another digest than the lock, {base.digest}",
            hint="name the repository alone",
        )
    return place


def _local(mirror: str) -> Callable[[str], Blob] | None:
    """Return where the blobs of a local mirror are, by digest; None if it is a registry."""
    kind, colon, rest = mirror.partition(":")
    if not colon or kind not in ("oci", "docker-archive"):
        return None
    if kind == "docker-archive":
        return archive_blobs(Path(rest))
    root = Path(rest)
    if not (root / "blobs").is_dir():
        root = Path(rest.rpartition(":")[0])

    def blob(digest: str) -> Blob:
        path = root / "blobs" / "sha256" / digest.removeprefix("sha256:")
        if not path.is_file():
            raise Refusal(
                f"digest-gone: {mirror} has no blob {digest}",
                hint="nothing else is taken in its place; copy the image again",
            )
        return path

    return blob


def _documents(
    base: Base, blob: Callable[[str], Blob], name: str, store: BlobStore, meter: Meter
) -> ImageFile:
    def fetch(descriptor: Mapping[str, Any]) -> bytes:
        digest = str(descriptor["digest"])
        _copy(blob, digest, None, name, store, meter)
        return store.path(digest).read_bytes()

    top = {"digest": base.digest}
    data = fetch(top)
    first = {**top, "mediaType": parse_object(data, name).get("mediaType")}
    platform = platform_of(base)
    digest, manifest = the_one(dict(images_below(first, platform, fetch, name)), platform, name)
    config = config_of(parse_object(manifest, name), name)
    return read_image(name, digest, manifest, fetch({"digest": config.digest}))


def _copy_layers(
    image: ImageFile,
    layers: Collection[Descriptor],
    blob: Callable[[str], Blob],
    name: str,
    store: BlobStore,
    meter: Meter,
) -> None:
    missing = [layer for layer in missing_layers(image, store) if layer in layers]
    meter.begin("copying the base", len(missing), sum(layer.size for layer in missing))
    for layer in missing:
        _copy(blob, layer.digest, layer.size, name, store, meter)
        meter.done()


def _copy(
    blob: Callable[[str], Blob],
    digest: str,
    size: int | None,
    name: str,
    store: BlobStore,
    meter: Meter,
) -> None:
    if store.has(digest, size):
        return
    hashed = hashlib.sha256()
    with opened(blob(digest)) as source, store.partial(digest) as file:
        file.truncate(0)
        while block := source.read(_CHUNK):
            file.write(block)
            hashed.update(block)
            meter.moved(len(block))
        found = "sha256:" + hashed.hexdigest()
        if found != digest:
            file.truncate(0)
            raise Refusal(
                f"digest-mismatch: {name}: blob {digest} holds {found}",
                hint="nothing of it was used; copy the image again",
            )
        store.keep(digest, file)


def _moved(base: Base, reference: Reference, image: ImageFile) -> list[str]:
    """Say whether the tag names something else by now, and what is other in it."""
    repository = Repository(reference, Wire(_ONCE))
    try:
        digest = repository.digest_of(reference.tag)
        if digest == base.digest:
            return []
        if not digest:
            return [f"tag-gone: {base.image} is no tag any more; the locked digest is used"]
        now = find_remote(repository, reference.at(tag=reference.tag), platform=platform_of(base))
    except ChainError as error:
        return [f"whether {base.image} has moved is not known: {error.message}"]
    if now.digest == base.digest:  # the tag is of an index that still leads to it
        return []
    shared = len(set(now.layers) & set(image.layers))
    parts = [f"{shared} of its {len(now.layers)} layers are in the locked image"]
    parts += _differences(image.document, now.document)
    return [
        f"tag-moved: {base.image} names {now.digest} by now; the locked {base.digest} is used",
        *(f"  {part}" for part in parts),
    ]


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    found = []
    if old.get("created") != new.get("created"):
        found.append(f"created {old.get('created')} -> {new.get('created')}")
    before, after = (_settings(config) for config in (old, new))
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            found.append(f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}")
    return found


def _settings(config: Mapping[str, Any]) -> dict[str, str]:
    process = config.get("config") or {}
    pairs = [str(item).partition("=") for item in process.get("Env") or ()]
    settings = {f"env {key}": value for key, _, value in pairs}
    settings |= {f"label {key}": str(value) for key, value in (process.get("Labels") or {}).items()}
    for key in ("Entrypoint", "Cmd", "User", "WorkingDir"):
        if process.get(key):
            settings[key] = str(process[key])
    return settings

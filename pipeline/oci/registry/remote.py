"""An image in a registry, looked into without bringing all of it here.

Manifest and config are read at once. A layer comes when its entries are asked for the first time;
its index is kept, and later runs read single files of it by ranges where its form allows that.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast, overload

import requests
import urllib3

from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.oci.blob import Blob
from pipeline.oci.imagefile import Descriptor, ImageFile, config_of, read_image
from pipeline.oci.index import MEDIA_TYPE_TAR, LayerIndex
from pipeline.oci.reading import kept_index, layer_index
from pipeline.oci.references import Reference
from pipeline.oci.registry.client import MANIFEST_TYPES, Repository
from pipeline.oci.registry.publish import Meter
from pipeline.oci.registry.pull import pull_blob
from pipeline.oci.registry.store import BlobStore
from pipeline.oci.registry.together import side_by_side
from pipeline.oci.selection import Platform, images_below, parse_object, the_one
from pipeline.oci.texts import Texts
from pipeline.oci.view import LayerInfo, LayersView


def find_kept(reference: Reference, *, platform: Platform, store: BlobStore) -> ImageFile | None:
    """Find an image in the cache alone; None when a document of it is not there, or is damaged."""
    try:
        return find_remote(_Nowhere(reference), reference, platform=platform, store=store)
    except ChainError:
        return None


class _Nowhere(Repository):
    """A repository that has nothing."""

    def send(self, *args: object, **more: object) -> object:  # type: ignore[override]
        raise ChainError("not in the cache")


def find_remote(
    repository: Repository,
    reference: Reference,
    *,
    platform: Platform | None = None,
    store: BlobStore | None = None,
) -> ImageFile:
    """Find the image that a reference means and that is for the platform (linux/arm64).

    With a store, what is asked for by digest is taken from there, or kept there. Raises Refusal
    when there is no such manifest or image, OutsideTrouble.
    """
    platform = platform or Platform()
    name = f"docker://{reference}"

    def fetch(descriptor: Mapping[str, Any]) -> bytes:
        digest = str(descriptor.get("digest"))
        if store is not None and store.has(digest):
            return store.path(digest).read_bytes()
        if descriptor.get("mediaType") in MANIFEST_TYPES:
            data = _manifest(repository, reference.at(digest=digest), name)[0]
        else:
            data = repository.blob_bytes(digest, int(descriptor.get("size") or 0))
        if store is not None:
            store.put(digest, data)
        return data

    if reference.digest:
        top = {"digest": reference.digest, "mediaType": MANIFEST_TYPES[0]}
        data, digest = fetch(top), reference.digest
    else:
        data, digest = _manifest(repository, reference, name)
        if store is not None:
            store.put(digest, data)
    first = {"digest": digest, "mediaType": parse_object(data, name).get("mediaType")}
    seen = {digest: data}

    def once(descriptor: Mapping[str, Any]) -> bytes:
        digest = str(descriptor.get("digest"))
        if digest not in seen:
            seen[digest] = fetch(descriptor)
        return seen[digest]

    found = dict(images_below(first, platform, once, name))
    chosen, manifest = the_one(found, platform, name)
    config = config_of(parse_object(manifest, name), name)
    return read_image(name, chosen, manifest, once({"digest": config.digest, "size": config.size}))


def _manifest(repository: Repository, reference: Reference, name: str) -> tuple[bytes, str]:
    came = repository.manifest(reference)
    if came is None:
        kind = "digest-gone" if reference.digest else "tag-gone"
        raise Refusal(
            f"{kind}: {name}: the registry has no such manifest",
            hint="nothing else is taken in its place; look at the name, and who removed it",
        )
    return came


def missing_layers(image: ImageFile, store: BlobStore) -> list[Descriptor]:
    """Return the layers of an image that are not in the store, each once."""
    layers = dict.fromkeys(image.layers)
    return [layer for layer in layers if not store.has(layer.digest, layer.size)]


def pull_layers(
    repository: Repository,
    image: ImageFile,
    store: BlobStore,
    meter: Meter,
    layers: Collection[Descriptor] | None = None,
) -> None:
    """Bring layers of an image (default: all) into the store, several at once.

    Raises Refusal for other bytes than the digests say, OutsideTrouble.
    """
    missing = missing_layers(image, store)
    if layers is not None:
        missing = [layer for layer in missing if layer in layers]
    if not missing:
        return
    meter.begin("pulling", len(missing), sum(layer.size for layer in missing))

    def pull(layer: Descriptor) -> None:
        pull_blob(repository, layer.digest, layer.size, store, meter.moved)
        meter.done()

    side_by_side(pull, missing, repository.wire)


def open_remote(
    repository: Repository,
    image: ImageFile,
    store: BlobStore,
    *,
    index_cache: Path | None,
    meter: Meter | None = None,
) -> LayersView:
    """Return a view of an image in a registry; no layer is read before it is needed."""
    layers = [
        LayerInfo(layer.digest, diff_id, created_by)
        for layer, diff_id, created_by in zip(
            image.layers, image.diff_ids, image.created_by, strict=True
        )
    ]
    return LayersView(
        image.name,
        _Layers(repository, image, store, index_cache, meter),
        layers,
        image.document,
        config_digest=image.config_descriptor.digest,
        manifest_digest=image.digest,
        texts=Texts(index_cache) if index_cache else None,
    )


class _Layers(Sequence[tuple[Blob, LayerIndex]]):
    """Blobs and indexes of an image's layers, made when the first one is asked for."""

    def __init__(
        self,
        repository: Repository,
        image: ImageFile,
        store: BlobStore,
        index_cache: Path | None,
        meter: Meter | None,
    ):
        self._repository, self._image, self._store = repository, image, store
        self._index_cache, self._meter = index_cache, meter

    def __len__(self) -> int:
        return len(self._image.layers)

    @overload
    def __getitem__(self, index: int) -> tuple[Blob, LayerIndex]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[Blob, LayerIndex]]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._pairs[index]

    @cached_property
    def _pairs(self) -> list[tuple[Blob, LayerIndex]]:
        layers = list(dict.fromkeys(self._image.layers))
        missing = [one for one in layers if kept_index(one.digest, self._index_cache) is None]
        if self._meter is not None and missing:
            self._meter.begin("reading layers", len(missing), sum(one.size for one in missing))
        side_by_side(self._bring, missing, self._repository.wire)
        pairs: list[tuple[Blob, LayerIndex]] = []
        for number, layer in enumerate(self._image.layers):
            index = kept_index(layer.digest, self._index_cache)
            if index is None:
                index = layer_index(self._bring(layer), layer.digest, self._index_cache)
            if index.diff_id != self._image.diff_ids[number]:
                raise Refusal(
                    f"{self._image.name}: layer {number} unpacks to {index.diff_id},"
                    " not as configured"
                )
            pairs.append((RemoteBlob(self._repository, layer, self._store, index), index))
        return pairs

    def _bring(self, layer: Descriptor) -> Path:
        moved: Callable[[int], None] = self._meter.moved if self._meter else lambda count: None
        path = pull_blob(self._repository, layer.digest, layer.size, self._store, moved)
        layer_index(path, layer.digest, self._index_cache)
        if self._meter is not None:
            self._meter.done()
        return path


class RemoteBlob:
    """A layer in a registry. `index` is what is known of it, if anything."""

    def __init__(
        self,
        repository: Repository,
        layer: Descriptor,
        store: BlobStore,
        index: LayerIndex | None = None,
    ):
        self._repository, self._layer, self._store = repository, layer, store
        kind = index.media_type if index else ""
        self._random = index is not None and (bool(index.frames) or kind == MEDIA_TYPE_TAR)

    def open_read(self) -> BinaryIO:
        """Open the file if it is here; by ranges if that will do; otherwise bring it here."""
        layer = self._layer
        if self._random and not self._store.has(layer.digest, layer.size):
            return cast(BinaryIO, _Ranged(self._repository, layer, self._store))
        return self.path().open("rb")

    def path(self) -> Path:
        """Bring the layer here, unless it is, and return its place."""
        layer = self._layer
        return pull_blob(
            self._repository, layer.digest, layer.size, self._store, lambda count: None
        )

    def __str__(self) -> str:
        return f"{self._repository.reference.name}@{self._layer.digest}"


class _Ranged(io.RawIOBase):
    """Reads parts of a blob; each read is one request. What comes is not verified here."""

    def __init__(self, repository: Repository, layer: Descriptor, store: BlobStore):
        self._repository, self._layer, self._store = repository, layer, store
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._layer.size}
        self._position = max(0, start[whence] + offset)
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        end = min(self._position + len(buffer), self._layer.size)
        if end <= self._position:
            return 0
        data = self._part(end)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _part(self, end: int) -> bytes:
        layer, name = self._layer, self._repository.reference.name
        for _ in range(self._repository.wire.patience.tries):
            with self._repository.blob(layer.digest, self._position, end) as answer:
                if answer.status_code != 206:
                    break
                try:
                    data = answer.raw.read(end - self._position, decode_content=False)
                except (urllib3.exceptions.HTTPError, requests.RequestException):
                    continue
                if len(data) == end - self._position:
                    return bytes(data)
        else:
            raise OutsideTrouble(f"{name}: blob {layer.digest} broke off", hint="try again later")
        pull_blob(self._repository, layer.digest, layer.size, self._store, lambda count: None)
        with self._store.path(layer.digest).open("rb") as file:
            file.seek(self._position)
            return file.read(end - self._position)

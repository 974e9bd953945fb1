"""Write an image as a `docker save` archive of plain layers, which every runtime loads.

Older runtimes read no zstd. Format: see `oci.archive`. Nothing is kept on disk: layers are
unpacked on their way, and each is held against its diff id.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import Refusal
from pipeline.oci.content import DAMAGE, decompressed, media_type_of
from pipeline.oci.image import canonical
from pipeline.oci.imagefile import Descriptor, ImageFile
from pipeline.oci.index import MEDIA_TYPE_TAR

_CHUNK = 1 << 20
_AGAIN = "the layout is damaged: build or copy it again"


def write_archive(
    image: ImageFile,
    blob: Callable[[Descriptor], Path],
    name: str,
    out: BinaryIO,
    moved: Callable[[int], None],
) -> None:
    """Write the archive of an image, called `name` (repository:tag), to a stream.

    `moved` is called with the bytes of compressed layers that are done. Raises Refusal when a layer
    is not what the config says: the archive is not finished then, and no runtime takes it.
    """
    config = f"{image.config_descriptor.digest.removeprefix('sha256:')}.json"
    names = [f"{diff_id.removeprefix('sha256:')}.tar" for diff_id in image.diff_ids]
    entry = {"Config": config, "RepoTags": [name], "Layers": names}
    _add(out, config, len(image.config), io.BytesIO(image.config))
    written: set[str] = set()
    for layer, diff_id, member in zip(image.layers, image.diff_ids, names, strict=True):
        if member not in written:
            written.add(member)
            _add_layer(out, member, blob(layer), diff_id)
        moved(layer.size)
    # Last, so that what broke off on the way names no image.
    manifest = canonical([entry])
    _add(out, "manifest.json", len(manifest), io.BytesIO(manifest))
    out.write(bytes(2 * tarfile.BLOCKSIZE))


def _add(out: BinaryIO, name: str, size: int, data: BinaryIO) -> str:
    """Write one file of the archive; return the sha256 of its content in hex."""
    member = tarfile.TarInfo(name)
    member.size = size
    out.write(member.tobuf(tarfile.GNU_FORMAT))
    hashed = hashlib.sha256()
    while block := data.read(_CHUNK):
        out.write(block)
        hashed.update(block)
    out.write(bytes(-size % tarfile.BLOCKSIZE))
    return hashed.hexdigest()


def _add_layer(out: BinaryIO, name: str, path: Path, diff_id: str) -> None:
    kind = media_type_of(path)
    try:
        size = path.stat().st_size if kind == MEDIA_TYPE_TAR else _plain_size(path, kind)
        with path.open("rb") as file, decompressed(file, kind) as plain:
            found = "sha256:" + _add(out, name, size, plain)
    except DAMAGE as error:
        raise Refusal(f"{path}: not a readable layer: {error}", hint=_AGAIN) from error
    if found != diff_id:
        raise Refusal(
            f"{path}: unpacks to {found}, not {diff_id}",
            hint=_AGAIN,
        )


def _plain_size(path: Path, kind: str) -> int:
    """Return the size of the tar in a layer: a tar's header must say it before its data."""
    size = 0
    with path.open("rb") as file, decompressed(file, kind) as plain:
        while block := plain.read(_CHUNK):
            size += len(block)
    return size

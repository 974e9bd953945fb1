"""What is in the layers of a base image, as a file: indexes that were made once, for everyone.

To index a layer all of it must be read. A lock that names this file by its sha256 spares every
other machine that: only layers from which a step reads files are downloaded there.

The file is zstd of JSON lines: {"format", "image"}, then the index of each layer, lowest first.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path

import zstandard

from pipeline.errors import OutsideTrouble, Refusal, UsageError
from pipeline.lock.model import Base, Captured
from pipeline.oci.image import canonical
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.index import LayerIndex
from pipeline.oci.reading import keep_index, kept_index

_FORMAT = 1
_LEVEL = 12


def write_capture(path: Path, image: ImageFile, indexes: Iterable[LayerIndex]) -> Captured:
    """Write the file, whole or not at all, and return what a lock says of it.

    Equal images give equal bytes, as long as libzstd is the same. Raises OutsideTrouble.
    """
    head = canonical({"format": _FORMAT, "image": image.digest})
    lines = b"\n".join([head, *(index.to_bytes() for index in indexes)]) + b"\n"
    data = zstandard.ZstdCompressor(level=_LEVEL, threads=0).compress(lines)
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_bytes(data)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OutsideTrouble(
            f"{path}: {error.strerror}", hint="name a file that can be written"
        ) from error
    return Captured(path.as_posix(), hashlib.sha256(data).hexdigest(), len(data))


def take_capture(base: Base, root: Path, image: ImageFile, cache: Path) -> None:
    """Put the indexes that the lock names into `cache`, unless they are all there.

    `root` is where the lock lies. Raises UsageError when the file is missing, Refusal when it is
    not the locked one, or is of another image.
    """
    if all(kept_index(layer.digest, cache) for layer in image.layers) or base.captured is None:
        return
    path, hint = root / base.captured.path, f"fetch --base {base.name} --capture FILE makes it anew"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; bases.{base.name}.captured of the lock names it", hint=hint
        ) from error
    found = hashlib.sha256(data).hexdigest()
    if (found, len(data)) != (base.captured.sha256, base.captured.size):
        raise Refusal(
            f"{path}: sha256 {found} of {len(data)} bytes, the lock wants"
            f" {base.captured.sha256} of {base.captured.size}",
            hint=hint,
        )
    stream = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)))
    try:
        head = json.loads(stream.readline())
        if head != {"format": _FORMAT, "image": image.digest}:
            raise ValueError(f"it says {head!r}")
        known = {layer.digest for layer in image.layers}
        for line in stream:
            index = LayerIndex.from_bytes(line)
            if index.digest in known:
                keep_index(index.digest, index.to_bytes, cache)
    except (ValueError, KeyError, TypeError, zstandard.ZstdError) as error:
        raise Refusal(
            f"{path}: it does not say what is in {image.digest}: {error}", hint=hint
        ) from error

"""Single files of a layer as streams that can seek, so that a part of a large file is enough.

Layers of frames and plain ones are read where they lie. Of any other blob one pass is made, and
each wanted file lies in a temporary file while it is looked at.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Collection, Iterator
from functools import partial
from typing import IO, BinaryIO, cast

from pipeline.errors import Refusal
from pipeline.oci.blob import Blob, Window, opened
from pipeline.oci.content import DAMAGE, decompressed, media_type_of, normal_path
from pipeline.oci.files import Reader, frame_reader, plain_reader
from pipeline.oci.index import MEDIA_TYPE_TAR, Entry, LayerIndex
from pipeline.oci.tarstream import read_tar

_BUFFER = 64 * 1024
_CHUNK = 1024 * 1024


def files_of(
    blob: Blob, index: LayerIndex, paths: Collection[str]
) -> Iterator[tuple[str, BinaryIO]]:
    """Yield files of one layer, by their paths in it, as streams that last until the next one.

    Empty files, and paths that are no file of this layer, are left out. Where only parts are read,
    nothing is held against its hash.
    Raises Refusal when the layer is damaged.
    """
    files = index.files
    wanted = {path: files[path] for path in paths if path in files and files[path].size}
    if not wanted:  # the blob may be elsewhere, and is not asked for
        return
    if not index.frames and index.media_type != MEDIA_TYPE_TAR:
        yield from _scanned(blob, wanted)
        return
    with opened(blob) as file:
        read = frame_reader(blob, file, index) if index.frames else plain_reader(file)
        for entry in sorted(wanted.values(), key=lambda entry: entry.offset):
            window = Window(entry.size, partial(_within, read, entry.offset))
            yield entry.path, cast(BinaryIO, io.BufferedReader(window, _BUFFER))


def _within(read: Reader, offset: int, position: int, wanted: int) -> bytes:
    return read(offset + position, wanted)


def _scanned(blob: Blob, wanted: dict[str, Entry]) -> Iterator[tuple[str, BinaryIO]]:
    # A hard link has no bytes of its own: the file that it names is read.
    sources = {entry.link or path: path for path, entry in wanted.items()}
    try:
        with (
            opened(blob) as file,
            decompressed(file, media_type_of(blob)) as plain,
            tempfile.TemporaryFile() as spool,
        ):
            for member, stream in read_tar(io.BufferedReader(cast(io.RawIOBase, plain), _CHUNK)):
                path = sources.get(normal_path(member.name)) if stream is not None else None
                if stream is None or path is None or wanted[path].size != member.size:
                    continue
                # A tar may hold a path twice, and then the last one is the file.
                if _spooled(stream, spool) == wanted[path].sha256:
                    yield path, cast(BinaryIO, spool)
    except DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error


def _spooled(stream: BinaryIO, spool: IO[bytes]) -> str:
    """Copy a stream into a file, and return the sha256 of it in hex."""
    spool.seek(0)
    spool.truncate()
    digest = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        spool.write(chunk)
    spool.seek(0)
    return digest.hexdigest()

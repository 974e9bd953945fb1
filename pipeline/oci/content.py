"""Read layers: index a blob of any maker in one pass. Single files of it: `oci.files`."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import BinaryIO, cast

import zstandard
from zlib_ng import gzip_ng, zlib_ng

from pipeline.errors import Refusal
from pipeline.oci import tarstream
from pipeline.oci.ahead import Ahead, Filling
from pipeline.oci.binary import ELF
from pipeline.oci.blob import Blob, opened
from pipeline.oci.elf import read_elf
from pipeline.oci.frames import HEADER, FrameFault, Frames, FrameScan, may_be_frames
from pipeline.oci.index import (
    DIRECTORY,
    FILE,
    HARDLINK,
    MEDIA_TYPE_GZIP,
    MEDIA_TYPE_TAR,
    MEDIA_TYPE_ZSTD,
    OPAQUE,
    START,
    SYMLINK,
    WHITEOUT,
    Entry,
    LayerIndex,
    binary_start,
    make_entry,
)
from pipeline.oci.layer import FRAME_SIZE, OPAQUE_NAME, WHITEOUT_PREFIX
from pipeline.oci.passing import NotHeld, Passing
from pipeline.oci.source import CUT, TarFault
from pipeline.oci.tarstream import members
from pipeline.oci.texts import MAX_TEXT, Keep, Texts

CHUNK = 1024 * 1024
# A frame of ours fills a buffer, so that libzstd unpacks it right into it, if all of it is at hand.
_UNIT, _UNITS = FRAME_SIZE, 4
_PACKED = 2 * FRAME_SIZE
_EMPTY = hashlib.sha256().hexdigest()
_MAGIC = ((b"\x1f\x8b", MEDIA_TYPE_GZIP), (b"\x28\xb5\x2f\xfd", MEDIA_TYPE_ZSTD))
_TYPES = {
    tarstream.DIRECTORY: DIRECTORY,
    tarstream.SYMLINK: SYMLINK,
    tarstream.CHAR: "char",
    tarstream.BLOCK_DEVICE: "block",
    tarstream.FIFO: "fifo",
}
DAMAGE: tuple[type[Exception], ...] = (
    TarFault,
    FrameFault,
    zlib.error,
    cast("type[Exception]", zlib_ng.error),
    zstandard.ZstdError,
    EOFError,
    gzip.BadGzipFile,
)


class _Packed(io.RawIOBase):
    """A blob as a decompressor reads it, whose frames are found on the way."""

    def __init__(self, blob: Ahead, scan: FrameScan | None):
        self._blob, self._scan = blob, scan
        self.frames: Frames | None = None

    def read(self, size: int = -1) -> memoryview:
        """Return some bytes, where they lie until the next call."""
        data = self._blob.take(size)
        if self._scan is not None:
            self._scan.feed(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def finish(self) -> None:
        """Read to the end: what follows the content belongs to the digest too."""
        while self.read(_PACKED):
            pass
        if self._scan is not None:
            self.frames = self._scan.close()


def media_type_of(blob: Blob) -> str:
    """Return the layer media type that the first bytes of a blob show."""
    with opened(blob) as file:
        start = file.read(4)
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), MEDIA_TYPE_TAR)


@contextmanager
def decompressed(
    stream: BinaryIO, media_type: str, size: int = zstandard.DECOMPRESSION_RECOMMENDED_INPUT_SIZE
) -> Iterator[BinaryIO]:
    """Open the tar in a layer's stream, of which `size` bytes are read at once; `media_type` is one
    that `media_type_of` gives."""
    if media_type == MEDIA_TYPE_GZIP:
        with gzip_ng.GzipNGFile(fileobj=stream) as unzipped:  # type: ignore[no-untyped-call]
            yield cast(BinaryIO, unzipped)
    elif media_type == MEDIA_TYPE_ZSTD:
        unpacker = zstandard.ZstdDecompressor()
        reader = unpacker.stream_reader(stream, read_size=size, read_across_frames=True)
        with reader:
            yield reader
    else:
        yield stream


def index_blob(blob: Blob, digest: str = "", texts: Texts | None = None) -> LayerIndex:
    """Index a layer blob (tar, gzip or zstd) in one pass over its bytes.

    `digest` is what the blob must be, if that is known; then the texts of one that allows no random
    access are put into `texts` in the same pass. Raises Refusal when the blob is another one, is no
    layer, is damaged, or names paths outside the root.
    """
    media_type = media_type_of(blob)
    try:
        with (
            opened(blob) as file,
            texts.collect(digest)
            if texts and digest and not _may_be_random(blob, media_type)
            else nullcontext() as keep,
        ):
            index = (
                _index_plain(file, keep)
                if media_type == MEDIA_TYPE_TAR
                else _index_packed(file, media_type, keep)
            )
            if digest and index.digest != digest:
                raise Refusal(
                    f"{blob}: holds {index.digest}, not what its name says",
                    hint="make or copy the layout again",
                )
    except DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    return index


def _may_be_random(blob: Blob, media_type: str) -> bool:
    """Whether a blob allows random access, as far as its start tells."""
    if media_type != MEDIA_TYPE_ZSTD:
        return media_type == MEDIA_TYPE_TAR
    with opened(blob) as file:
        return may_be_frames(file.read(HEADER))


def _index_plain(file: BinaryIO, keep: Keep | None) -> LayerIndex:
    with Ahead(cast(Filling, file), unit=_UNIT, units=_UNITS) as tar:
        entries = tuple(_entries(tar, keep))
        tar.drain()
    digest = "sha256:" + tar.sha256.hexdigest()
    return LayerIndex(digest, digest, tar.count, MEDIA_TYPE_TAR, entries)


def _index_packed(file: BinaryIO, media_type: str, keep: Keep | None) -> LayerIndex:
    # Reading, hashing the blob, unpacking, hashing the tar, and looking into it with hashing its
    # files, are five things at once.
    with Ahead(cast(Filling, file), unit=_PACKED, units=2) as blob:
        packed = _Packed(blob, FrameScan() if media_type == MEDIA_TYPE_ZSTD else None)
        with (
            decompressed(cast(BinaryIO, packed), media_type, _PACKED) as plain,
            Ahead(cast(Filling, plain), packed.finish, unit=_UNIT, units=_UNITS) as tar,
        ):
            entries = tuple(_entries(tar, keep))
            tar.drain()  # to its end, and so through `finish` to that of the blob
    frames = packed.frames
    if frames is not None and not _covers(frames, tar.count):
        frames = None
    return LayerIndex(
        digest="sha256:" + blob.sha256.hexdigest(),
        diff_id="sha256:" + tar.sha256.hexdigest(),
        size=blob.count,
        media_type=media_type,
        entries=entries,
        frame_size=frames.size if frames else 0,
        frames=frames.compressed if frames else (),
    )


def _covers(frames: Frames, size: int) -> bool:
    """Whether so many frames of that size hold `size` bytes: headers can lie."""
    return frames.size * (len(frames.compressed) - 1) < size <= frames.size * len(frames.compressed)


def normal_path(name: str) -> str:
    """Return a tar member's name as an index path; raises TarFault when it leaves the root."""
    if not ("/." in name or "//" in name or name.startswith(("/", ".")) or name.endswith("/")):
        return name  # as nearly all are
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise TarFault(f"entry {name!r} climbs out of the root")
    return "/".join(parts)


def _entries(tar: Ahead, keep: Keep | None) -> Iterator[Entry]:
    files: dict[str, Entry] = {}
    for member in members(tar):
        name = member.name
        path = normal_path(name)
        kind = member.type
        if WHITEOUT_PREFIX in name and (entry := _whiteout(path, member.mode)) is not None:
            yield entry
        elif kind == tarstream.FILE:
            size = member.size
            sha256, start = _hash(tar, size, keep)
            offset = member.offset if size else -1
            entry = make_entry(
                (path, FILE, member.mode, size, sha256, "", offset, start, member.mtime)
            )
            files[path] = entry
            yield entry
        elif kind == tarstream.HARDLINK:
            target = normal_path(member.link)
            mode = member.mode
            source = files.get(target) or Entry(target, FILE, mode)
            yield source._replace(path=path, type=HARDLINK, mode=mode, link=target)
        elif path:
            link = member.link if kind == tarstream.SYMLINK else ""
            yield Entry(path, _TYPES[kind], member.mode, 0, "", link)


def _whiteout(path: str, mode: int) -> Entry | None:
    """Return what a name that is a marker means; None for any other name."""
    parent, _, base = path.rpartition("/")
    if base == OPAQUE_NAME:
        return Entry(parent, OPAQUE, mode)
    if not base.startswith(WHITEOUT_PREFIX):
        return None
    removed = base[len(WHITEOUT_PREFIX) :]
    if removed in ("", ".", ".."):
        raise TarFault(f"entry {path!r} removes nothing that has a name")
    return Entry(f"{parent}/{removed}" if parent else removed, WHITEOUT, mode)


def _hash(tar: Ahead, size: int, keep: Keep | None) -> tuple[str, str]:
    """Return (hex sha256, `Entry.start`) of the data that follows; `keep` is told of it."""
    if keep is not None and size <= MAX_TEXT:
        data = tar.exactly(size)
        sha256 = hashlib.sha256(data).hexdigest()
        keep.text(sha256, data)
        if data.startswith(ELF):
            keep.binary(sha256, read_elf(io.BytesIO(data)))
        return sha256, binary_start(data)
    if not size:
        return _EMPTY, ""
    piece = tar.take(size)
    start = piece[:START].tobytes()
    passing = Passing(size) if keep is not None and start.startswith(ELF) else None
    if passing is not None:
        passing.add(piece)
    digest = hashlib.sha256(piece)
    left = size - len(piece)
    while left:
        piece = tar.take(left)
        if not piece:
            raise TarFault(CUT)
        digest.update(piece)
        if passing is not None:
            passing.add(piece)
        left -= len(piece)
    sha256 = digest.hexdigest()
    if keep is not None and passing is not None:
        with suppress(NotHeld):  # whoever asks for it reads the layer
            keep.binary(sha256, passing.elf())
    return sha256, binary_start(start)

"""Read layers: index a blob of any maker in one pass. Single files of it: `oci.files`."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import BinaryIO

import zstandard

from pipeline.errors import Refusal
from pipeline.oci import tarstream
from pipeline.oci.blob import Blob, opened
from pipeline.oci.frames import FrameFault, Frames, find_frames
from pipeline.oci.hashing import Digest, HashThread
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
)
from pipeline.oci.layer import OPAQUE_NAME, WHITEOUT_PREFIX
from pipeline.oci.tarstream import TarFault, read_tar
from pipeline.oci.texts import MAX_TEXT, Keep, Texts

CHUNK = 1024 * 1024
_LARGE = 256 * 1024  # bytes from which handing a file to a thread is cheaper than hashing it
_MAGIC = ((b"\x1f\x8b", MEDIA_TYPE_GZIP), (b"\x28\xb5\x2f\xfd", MEDIA_TYPE_ZSTD))
_TYPES = {
    tarstream.FILE: FILE,
    tarstream.DIRECTORY: DIRECTORY,
    tarstream.SYMLINK: SYMLINK,
    tarstream.HARDLINK: HARDLINK,
    tarstream.CHAR: "char",
    tarstream.BLOCK_DEVICE: "block",
    tarstream.FIFO: "fifo",
}
DAMAGE = (TarFault, FrameFault, zlib.error, zstandard.ZstdError, EOFError, gzip.BadGzipFile)


class Hashing(io.RawIOBase):
    """A reader that hashes and counts what passes through it."""

    def __init__(self, inner: BinaryIO, thread: HashThread | None = None):
        self._inner = inner
        self._thread = thread
        self.sha256 = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        if self._thread is None:
            self.sha256.update(data)
        else:
            self._thread.update(self.sha256, data)
        self.count += len(data)
        return len(data)

    def drain(self) -> None:
        """Read to the end: what follows the tar's end belongs to the digest too."""
        while self.read(CHUNK):
            pass


def media_type_of(blob: Blob) -> str:
    """Return the layer media type that the first bytes of a blob show."""
    with opened(blob) as file:
        start = file.read(4)
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), MEDIA_TYPE_TAR)


@contextmanager
def decompressed(stream: BinaryIO, media_type: str) -> Iterator[BinaryIO]:
    """Open the tar in a layer's stream; `media_type` is one that `media_type_of` gives."""
    if media_type == MEDIA_TYPE_GZIP:
        with gzip.GzipFile(fileobj=stream) as unzipped:
            yield unzipped  # type: ignore[misc]
    elif media_type == MEDIA_TYPE_ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
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
        frames = find_frames(blob) if media_type == MEDIA_TYPE_ZSTD else None
        is_random = frames is not None or media_type == MEDIA_TYPE_TAR
        with (
            opened(blob) as file,
            texts.collect(digest) if texts and digest and not is_random else nullcontext() as keep,
        ):
            # Unpacking, hashing the tar and hashing its files are three things at once.
            with HashThread() as tars, HashThread() as files:
                outer = Hashing(file, tars)
                with decompressed(io.BufferedReader(outer, CHUNK), media_type) as plain:
                    # Reads of whole blocks and chunks pass through; headers come from a buffer.
                    inner = Hashing(plain, tars)
                    members = list(_entries(io.BufferedReader(inner, CHUNK), files, keep))
                    inner.drain()
                outer.drain()
            found = "sha256:" + outer.sha256.hexdigest()
            if digest and found != digest:
                raise Refusal(
                    f"{blob}: holds {found}, not what its name says",
                    hint="make or copy the layout again",
                )
    except DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    entries = tuple(
        entry if hashed is None else entry._replace(sha256=hashed.hexdigest())
        for entry, hashed in members
    )
    if frames is not None and not _covers(frames, inner.count):
        frames = None
    return LayerIndex(
        digest=found,
        diff_id="sha256:" + inner.sha256.hexdigest(),
        size=outer.count,
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
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise TarFault(f"entry {name!r} climbs out of the root")
    return "/".join(parts)


def _entries(
    plain: BinaryIO, thread: HashThread, keep: Keep | None
) -> Iterator[tuple[Entry, Digest | None]]:
    """Yield entries; of one with a digest that has yet to be taken when the thread is through."""
    files: dict[str, tuple[Entry, Digest | None]] = {}
    for member, stream in read_tar(plain):
        path = normal_path(member.name)
        parent, _, base = path.rpartition("/")
        mode = member.mode
        kind = _TYPES[member.type]
        if base == OPAQUE_NAME:
            yield Entry(parent, OPAQUE, mode), None
        elif base.startswith(WHITEOUT_PREFIX):
            removed = base[len(WHITEOUT_PREFIX) :]
            if removed in ("", ".", ".."):
                raise TarFault(f"entry {path!r} removes nothing that has a name")
            yield Entry(f"{parent}/{removed}" if parent else removed, WHITEOUT, mode), None
        elif stream is not None:
            text = keep if member.size <= MAX_TEXT else None
            sha256, start, digest = _hash(stream, member.size, thread, text)
            offset = member.offset if member.size else -1
            entry = Entry(path, FILE, mode, member.size, sha256, "", offset, start, member.mtime)
            files[path] = found = (entry, digest)
            yield found
        elif kind == HARDLINK:
            target = normal_path(member.link)
            source, digest = files.get(target, (Entry(target, FILE, mode), None))
            yield source._replace(path=path, type=HARDLINK, mode=mode, link=target), digest
        elif path:
            yield Entry(path, kind, mode, 0, "", member.link if kind == SYMLINK else ""), None


def _hash(
    stream: BinaryIO, size: int, thread: HashThread, keep: Keep | None
) -> tuple[str, str, Digest | None]:
    """Return (hex sha256, `Entry.start`, None) of a member's data; of a large file the digest that
    the thread fills, and no text of it yet. `keep` is given the data whole."""
    if keep is not None:
        data = stream.read()
        sha256 = hashlib.sha256(data).hexdigest()
        keep(sha256, data)
        return sha256, binary_start(data[:START]), None
    chunk = stream.read(CHUNK)
    start = binary_start(chunk[:START])
    if size < _LARGE:
        return hashlib.sha256(chunk).hexdigest(), start, None
    digest = hashlib.sha256()
    while chunk:
        thread.update(digest, chunk)
        chunk = stream.read(CHUNK)
    return "", start, digest

"""Read layers: index a blob of any maker in one pass, and fetch single files out of a blob."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
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

_CHUNK = 1024 * 1024
_LARGE = 256 * 1024  # bytes from which handing a file to a thread is cheaper than hashing it
_FRAMES = 3  # of 16 MiB at most: the start of a large file, its end, and the file beside it
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


class _Hashing(io.RawIOBase):
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
        while self.read(_CHUNK):
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


def index_blob(blob: Blob) -> LayerIndex:
    """Index a layer blob (tar, gzip or zstd) in one pass over its bytes.

    Raises Refusal when the blob is no layer, is damaged, or names paths outside the root.
    """
    media_type = media_type_of(blob)
    try:
        frames = find_frames(blob) if media_type == MEDIA_TYPE_ZSTD else None
        # Unpacking, hashing the tar and hashing its files are three things at once.
        with opened(blob) as file, HashThread() as tars, HashThread() as files:
            outer = _Hashing(file, tars)
            with decompressed(io.BufferedReader(outer, _CHUNK), media_type) as plain:
                # Reads of whole blocks and chunks pass through; single headers come from a buffer.
                inner = _Hashing(plain, tars)
                found = list(_entries(io.BufferedReader(inner, _CHUNK), files))
                inner.drain()
            outer.drain()
    except DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    entries = tuple(
        entry if digest is None else entry._replace(sha256=digest.hexdigest())
        for entry, digest in found
    )
    if frames is not None and not _covers(frames, inner.count):
        frames = None
    return LayerIndex(
        digest="sha256:" + outer.sha256.hexdigest(),
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


def read_files(blob: Blob, index: LayerIndex, paths: Collection[str]) -> dict[str, bytes]:
    """Return the content of files of one layer, by their paths in it.

    Our own layers are read frame by frame; blobs of other makers take one pass. Raises KeyError
    for a path that is no file of this layer, Refusal when content does not hash as indexed.
    """
    asked = set(paths)
    wanted = {entry.path: entry for entry in index.entries if entry.path in asked}
    for path in asked:
        if path not in wanted or not wanted[path].has_content:
            raise KeyError(path)
    if index.frames or index.media_type == MEDIA_TYPE_TAR:
        found = _read_frames(blob, index, wanted)
    else:
        found = _read_scanning(blob, wanted)
    for path, entry in wanted.items():
        if path not in found or hashlib.sha256(found[path]).hexdigest() != entry.sha256:
            raise Refusal(f"{blob}: {path} is not what its index says", hint="remove the blob")
    return found


def _read_frames(blob: Blob, index: LayerIndex, wanted: dict[str, Entry]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with opened(blob) as file:
        read = plain_reader(file) if not index.frames else frame_reader(blob, file, index)
        for entry in sorted(wanted.values(), key=lambda entry: entry.offset):
            parts: list[bytes] = []
            position, left = entry.offset, entry.size
            while left:
                part = read(position, left)
                if not part:
                    raise Refusal(f"{blob}: {entry.path} lies outside of it")
                parts.append(part)
                position += len(part)
                left -= len(part)
            found[entry.path] = b"".join(parts)
    return found


Reader = Callable[[int, int], bytes]
"""(position in the tar, bytes wanted) -> some of them, none at the end."""


def plain_reader(file: BinaryIO) -> Reader:
    """Return a reader of a plain tar."""

    def read(position: int, size: int) -> bytes:
        file.seek(position)
        return file.read(size)

    return read


def frame_reader(blob: Blob, file: BinaryIO, index: LayerIndex) -> Reader:
    """Return a reader of the tar in a blob of frames; the last few frames stay in memory."""
    starts = [0]
    for size in index.frames:
        starts.append(starts[-1] + size)
    recent: dict[int, bytes] = {}

    def read(position: int, size: int) -> bytes:
        number = position // index.frame_size
        frame = recent.pop(number, None)
        if frame is None:
            if number >= len(index.frames):
                return b""
            file.seek(starts[number])
            frame = _decompress(blob, file.read(index.frames[number]), number, index.frame_size)
        recent[number] = frame
        if len(recent) > _FRAMES:
            del recent[next(iter(recent))]
        at = position % index.frame_size
        return frame[at : at + size]

    return read


def _decompress(blob: Blob, data: bytes, number: int, size: int) -> bytes:
    try:
        # What a frame declares is allocated at once, so it is asked before.
        if not 0 <= zstandard.frame_content_size(data) <= size:
            raise Refusal(f"{blob}: damaged at frame {number}: it declares another size")
        return zstandard.ZstdDecompressor().decompress(data)
    except zstandard.ZstdError as error:
        raise Refusal(f"{blob}: damaged at frame {number}: {error}") from error


def _read_scanning(blob: Blob, wanted: dict[str, Entry]) -> dict[str, bytes]:
    # A hard link has no bytes of its own: read the file of this layer that it names.
    names: dict[str, list[str]] = {}
    for path, entry in wanted.items():
        names.setdefault(entry.link or path, []).append(path)
    found: dict[str, bytes] = {}
    try:
        with opened(blob) as file, decompressed(file, media_type_of(blob)) as plain:
            for member, stream in read_tar(io.BufferedReader(_Hashing(plain), _CHUNK)):
                path = normal_path(member.name)
                if stream is None or path not in names:
                    continue
                # A tar may hold a path twice, and then the last one counts.
                if all(wanted[name].size != member.size for name in names[path]):
                    continue
                data = stream.read()
                found.update(dict.fromkeys(names[path], data))
                sha256 = hashlib.sha256(data).hexdigest()
                if all(wanted[name].sha256 == sha256 for name in names[path]):
                    del names[path]
                if not names:
                    break
    except DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    return found


def normal_path(name: str) -> str:
    """Return a tar member's name as an index path; raises Refusal when it leaves the root."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refusal(f"layer entry {name!r} climbs out of the root")
    return "/".join(parts)


def _entries(plain: BinaryIO, thread: HashThread) -> Iterator[tuple[Entry, Digest | None]]:
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
                raise Refusal(f"layer entry {path!r} removes nothing that has a name")
            yield Entry(f"{parent}/{removed}" if parent else removed, WHITEOUT, mode), None
        elif stream is not None:
            sha256, start, digest = _hash(stream, member.size, thread)
            offset = member.offset if member.size else -1
            entry = Entry(path, FILE, mode, member.size, sha256, "", offset, start, member.mtime)
            files[path] = (entry, digest)
            yield entry, digest
        elif kind == HARDLINK:
            target = normal_path(member.link)
            source, digest = files.get(target, (Entry(target, FILE, mode), None))
            yield source._replace(path=path, type=HARDLINK, mode=mode, link=target), digest
        elif path:
            yield Entry(path, kind, mode, 0, "", member.link if kind == SYMLINK else ""), None


def _hash(stream: BinaryIO, size: int, thread: HashThread) -> tuple[str, str, Digest | None]:
    """Return (hex sha256, `Entry.start`, None) of a member's data; of a large file the digest that
    the thread fills, and no text of it yet."""
    chunk = stream.read(_CHUNK)
    start = binary_start(chunk[:START])
    if size < _LARGE:
        return hashlib.sha256(chunk).hexdigest(), start, None
    digest = hashlib.sha256()
    while chunk:
        thread.update(digest, chunk)
        chunk = stream.read(_CHUNK)
    return "", start, digest

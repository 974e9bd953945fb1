"""Read layers: index a blob of any maker in one pass, and fetch single files out of a blob."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import zstandard

from pipeline.errors import Refusal
from pipeline.oci.index import (
    DIRECTORY,
    FILE,
    HARDLINK,
    MEDIA_TYPE_GZIP,
    MEDIA_TYPE_TAR,
    MEDIA_TYPE_ZSTD,
    OPAQUE,
    SYMLINK,
    WHITEOUT,
    Entry,
    LayerIndex,
)
from pipeline.oci.layer import OPAQUE_NAME, WHITEOUT_PREFIX

_CHUNK = 1024 * 1024
_MAGIC = ((b"\x1f\x8b", MEDIA_TYPE_GZIP), (b"\x28\xb5\x2f\xfd", MEDIA_TYPE_ZSTD))
_TYPES = {
    tarfile.REGTYPE: FILE,
    tarfile.AREGTYPE: FILE,
    tarfile.CONTTYPE: FILE,
    tarfile.GNUTYPE_SPARSE: FILE,
    tarfile.DIRTYPE: DIRECTORY,
    tarfile.SYMTYPE: SYMLINK,
    tarfile.LNKTYPE: HARDLINK,
    tarfile.CHRTYPE: "char",
    tarfile.BLKTYPE: "block",
    tarfile.FIFOTYPE: "fifo",
}
_DAMAGE = (tarfile.TarError, zlib.error, zstandard.ZstdError, EOFError, gzip.BadGzipFile)


class _Hashing(io.RawIOBase):
    """A reader that hashes and counts what passes through it."""

    def __init__(self, inner: BinaryIO):
        self._inner = inner
        self.sha256 = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(len(buffer))
        buffer[: len(data)] = data
        self.sha256.update(data)
        self.count += len(data)
        return len(data)

    def drain(self) -> None:
        """Read to the end: what follows the tar's end belongs to the digest too."""
        while self.read(_CHUNK):
            pass


def media_type_of(blob: Path) -> str:
    """Return the layer media type that the first bytes of a blob show."""
    with blob.open("rb") as file:
        start = file.read(4)
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), MEDIA_TYPE_TAR)


@contextmanager
def _decompressed(stream: BinaryIO, media_type: str) -> Iterator[BinaryIO]:
    if media_type == MEDIA_TYPE_GZIP:
        with gzip.GzipFile(fileobj=stream) as unzipped:
            yield unzipped  # type: ignore[misc]
    elif media_type == MEDIA_TYPE_ZSTD:
        reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        with reader:
            yield reader
    else:
        yield stream


def index_blob(blob: Path) -> LayerIndex:
    """Index a layer blob (tar, gzip or zstd) in one pass over its bytes.

    Raises Refusal when the blob is no layer, is damaged, or names paths outside the root.
    """
    media_type = media_type_of(blob)
    entries: list[Entry] = []
    try:
        with blob.open("rb") as file:
            outer = _Hashing(file)
            with _decompressed(io.BufferedReader(outer, _CHUNK), media_type) as plain:
                inner = _Hashing(plain)
                # A buffer would read ahead of tarfile's own positions; inner is read by it alone.
                with tarfile.open(fileobj=inner, mode="r|", bufsize=_CHUNK) as tar:
                    entries = list(_entries(tar))
                inner.drain()
            outer.drain()
    except _DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    return LayerIndex(
        digest="sha256:" + outer.sha256.hexdigest(),
        diff_id="sha256:" + inner.sha256.hexdigest(),
        size=outer.count,
        media_type=media_type,
        entries=tuple(entries),
    )


def read_files(blob: Path, index: LayerIndex, paths: Collection[str]) -> dict[str, bytes]:
    """Return the content of files of one layer, by their paths in it.

    Our own layers are read frame by frame; blobs of other makers take one pass. Raises KeyError
    for a path that is no file of this layer, Refusal when content does not hash as indexed.
    """
    asked = set(paths)
    wanted = {entry.path: entry for entry in index.entries if entry.path in asked}
    for path in asked:
        if path not in wanted or not wanted[path].has_content:
            raise KeyError(path)
    if index.frames:
        found = _read_frames(blob, index, wanted)
    else:
        found = _read_scanning(blob, wanted)
    for path, entry in wanted.items():
        if path not in found or hashlib.sha256(found[path]).hexdigest() != entry.sha256:
            raise Refusal(f"{blob}: {path} is not what its index says", hint="remove the blob")
    return found


def _read_frames(blob: Path, index: LayerIndex, wanted: dict[str, Entry]) -> dict[str, bytes]:
    starts = [0]
    for size in index.frames:
        starts.append(starts[-1] + size)
    found: dict[str, bytes] = {}
    number, frame = -1, b""
    with blob.open("rb") as file:
        for entry in sorted(wanted.values(), key=lambda entry: entry.offset):
            parts: list[bytes] = []
            position, left = entry.offset, entry.size
            while left:
                if position // index.frame_size != number:
                    number = position // index.frame_size
                    file.seek(starts[number])
                    data = file.read(index.frames[number])
                    try:
                        frame = zstandard.ZstdDecompressor().decompress(data)
                    except zstandard.ZstdError as error:
                        raise Refusal(f"{blob}: damaged at frame {number}: {error}") from error
                at = position % index.frame_size
                part = frame[at : at + left]
                if not part:
                    raise Refusal(f"{blob}: {entry.path} lies outside its frame")
                parts.append(part)
                position += len(part)
                left -= len(part)
            found[entry.path] = b"".join(parts)
    return found


def _read_scanning(blob: Path, wanted: dict[str, Entry]) -> dict[str, bytes]:
    # A hard link has no bytes of its own: read the file of this layer that it names.
    names: dict[str, list[str]] = {}
    for path, entry in wanted.items():
        names.setdefault(entry.link or path, []).append(path)
    found: dict[str, bytes] = {}
    try:
        with (
            blob.open("rb") as file,
            _decompressed(file, media_type_of(blob)) as plain,
            tarfile.open(fileobj=plain, mode="r|", bufsize=_CHUNK) as tar,
        ):
            for member in tar:
                path = _normal(member.name)
                if member.isreg() and path in names:
                    stream = tar.extractfile(member)
                    data = stream.read() if stream else b""
                    found.update(dict.fromkeys(names[path], data))
                    # A tar may hold a path twice, and then the last one counts.
                    sha256 = hashlib.sha256(data).hexdigest()
                    if all(wanted[name].sha256 == sha256 for name in names[path]):
                        del names[path]
                    if not names:
                        break
    except _DAMAGE as error:
        raise Refusal(f"{blob}: not a readable layer: {error}") from error
    return found


def _normal(name: str) -> str:
    """Return a tar member's name as an index path; raises Refusal when it leaves the root."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refusal(f"layer entry {name!r} climbs out of the root")
    return "/".join(parts)


def _entries(tar: tarfile.TarFile) -> Iterator[Entry]:
    files: dict[str, Entry] = {}
    for member in tar:
        path = _normal(member.name)
        parent, _, base = path.rpartition("/")
        mode = member.mode & 0o7777
        kind = _TYPES.get(member.type)
        if kind is None:
            raise Refusal(f"layer entry {path!r} has unknown type {member.type!r}")
        if base == OPAQUE_NAME:
            yield Entry(parent, OPAQUE, mode)
        elif base.startswith(WHITEOUT_PREFIX):
            yield Entry(
                "/".join(filter(None, (parent, base[len(WHITEOUT_PREFIX) :]))), WHITEOUT, mode
            )
        elif kind == FILE:
            entry = Entry(path, FILE, mode, member.size, _hash_member(tar, member), "", -1)
            files[path] = entry
            yield entry
        elif kind == HARDLINK:
            target = _normal(member.linkname)
            source = files.get(target)
            yield Entry(
                path,
                HARDLINK,
                mode,
                source.size if source else 0,
                source.sha256 if source else "",
                target,
            )
        elif path:
            yield Entry(path, kind, mode, 0, "", member.linkname if kind == SYMLINK else "")


def _hash_member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    digest = hashlib.sha256()
    stream = tar.extractfile(member)
    while stream and (chunk := stream.read(_CHUNK)):
        digest.update(chunk)
    return digest.hexdigest()

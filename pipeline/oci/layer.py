"""Write a layer: a deterministic tar in independent zstd frames, indexed in the same pass.

The tar is cut every `FRAME_SIZE` bytes and each piece is compressed on its own. So the bytes do not
depend on how many threads compress, and a file can be read later from the one or two frames that
hold it. RFC 8878 section 3.1 makes a concatenation of frames one valid stream.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import tarfile
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import zstandard

from pipeline.errors import Refusal, UsageError
from pipeline.oci.header import BLOCK, tar_header
from pipeline.oci.index import (
    DIRECTORY,
    FILE,
    HARDLINK,
    MEDIA_TYPE_ZSTD,
    OPAQUE,
    START,
    SYMLINK,
    WHITEOUT,
    Entry,
    LayerIndex,
    binary_start,
)

FRAME_SIZE = 4 * 1024 * 1024
_END_OF_ARCHIVE = bytes(2 * BLOCK)
_COPY = 1024 * 1024
WHITEOUT_PREFIX = ".wh."
OPAQUE_NAME = ".wh..wh..opq"
_FAULTY_PART = re.compile(r"(?:^|/)\.{0,2}(?:/|\Z)")  # an empty part, "." or ".."


def check_zstd(library: str) -> None:
    """Refuse to compress with another libzstd than `library`: its bytes could differ.

    Raises UsageError: the environment of this program is not the one that the lock was made for.
    """
    found = ".".join(map(str, zstandard.ZSTD_VERSION))
    if found != library:
        raise UsageError(
            f"the lock wants libzstd {library}, but the zstandard package here brings {found}",
            hint="install requirements/run.txt, or call through nox",
        )


def check_path(path: str) -> None:
    """Refuse a path that is absolute, empty, climbs, is not normal, or is not UTF-8 text."""
    faulty = "\0" in path or _FAULTY_PART.search(path) is not None
    if faulty or not path.isascii():
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            faulty = True
    if faulty:
        raise Refusal(f"not a path for a layer: {path!r}", hint="paths are relative and normal")


class LayerWriter:
    """Streams entries into a layer blob at `path`; memory stays at a few frames.

    Entries come out in the order of the calls, with uid and gid 0 and mtime `epoch` (seconds since
    1970). Parent directories that were not added before are added once, with the mode that
    `directory_mode` gives: a layer on top of others must repeat theirs, or it would change them.
    `seen` is called with the path and content of every file that is given as a whole.
    Use as a context manager: leaving it with an error removes the blob.
    """

    def __init__(
        self,
        path: Path,
        *,
        epoch: int,
        level: int,
        threads: int = 2,
        directory_mode: Callable[[str], int] = lambda path: 0o755,
        seen: Callable[[str, bytes], None] = lambda path, data: None,
    ):
        self._path = path
        self._tell = seen
        self._directory_mode = directory_mode
        self._epoch = epoch
        self._level = level
        self._out: BinaryIO = path.open("xb")
        self._entries: list[Entry] = []
        self._seen: dict[str, int] = {}
        self._buffer = bytearray()
        self._offset = 0
        self._diff = hashlib.sha256()
        self._digest = hashlib.sha256()
        self._size = 0
        self._frames: list[int] = []
        # One worker keeps the order of the hash; it leaves the caller's thread to inflate.
        self._hasher = ThreadPoolExecutor(1)
        self._compressors = ThreadPoolExecutor(threads)
        self._in_flight: deque[tuple[Future[None], Future[bytes]]] = deque()
        self._max_in_flight = threads + 2

    def __enter__(self) -> LayerWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._hasher.shutdown(cancel_futures=True)
        self._compressors.shutdown(cancel_futures=True)
        if not self._out.closed:
            self._out.close()
            self._path.unlink(missing_ok=True)

    def __contains__(self, path: str) -> bool:
        return path in self._seen

    def get(self, path: str) -> Entry | None:
        """Return what this layer holds at `path` so far."""
        number = self._seen.get(path)
        return None if number is None else self._entries[number]

    def add_directory(self, path: str, mode: int = 0o755) -> None:
        """Add a directory. The same directory again is fine, with another mode it is refused."""
        known = self._seen.get(path)
        if known is not None:
            entry = self._entries[known]
            if entry.type == DIRECTORY and entry.mode == mode:
                return
            raise self._duplicate(path)
        self._put(Entry(path, DIRECTORY, mode), tarfile.DIRTYPE)

    def add_file(self, path: str, data: bytes | BinaryIO, size: int, mode: int = 0o644) -> str:
        """Add a regular file of exactly `size` bytes; returns the hex sha256 of its content.

        Raises Refusal when the stream holds fewer or more bytes than `size`.
        """
        self._put(Entry(path, FILE, mode, size), tarfile.REGTYPE)
        offset = self._offset
        if isinstance(data, bytes):
            if len(data) != size:
                raise Refusal(f"{path}: has {len(data)} bytes, not its declared {size}")
            sha256 = hashlib.sha256(data).hexdigest()
            self._write(data)
            self._write(bytes(-size % BLOCK))
            self._finish_file(sha256, offset, binary_start(data))
            self._tell(path, data)
            return sha256
        stream = data
        digest = hashlib.sha256()
        left = size
        start = b""
        while left:
            chunk = stream.read(min(_COPY, left))
            if not chunk:
                raise Refusal(f"{path}: ends {left} bytes before its declared {size}")
            digest.update(chunk)
            self._write(chunk)
            if len(start) < START:
                start += chunk[:START]
            left -= len(chunk)
        if stream.read(1):
            raise Refusal(f"{path}: is longer than its declared {size} bytes")
        self._write(bytes(-size % BLOCK))
        sha256 = digest.hexdigest()
        self._finish_file(sha256, offset, binary_start(start))
        return sha256

    def _finish_file(self, sha256: str, offset: int, start: str) -> None:
        path, kind, mode, size = self._entries[-1][:4]
        self._entries[-1] = Entry(path, kind, mode, size, sha256, "", offset, start, self._epoch)

    def add_symlink(self, path: str, target: str) -> None:
        """Add a symbolic link. The target is text and is not followed."""
        self._put(Entry(path, SYMLINK, 0o777, link=target), tarfile.SYMTYPE)

    def add_hardlink(self, path: str, target: str) -> None:
        """Add a hard link to `target`, a file that this layer already holds."""
        known = self._seen.get(target)
        if known is None or not self._entries[known].has_content:
            raise Refusal(f"{path}: hard link to {target}, which is no file of this layer")
        file = self._entries[known]
        self._put(file._replace(path=path, type=HARDLINK, link=target), tarfile.LNKTYPE)

    def add_whiteout(self, path: str) -> None:
        """Remove `path` (a file, or a directory with all below it) of lower layers."""
        self._put(Entry(path, WHITEOUT, 0o644), tarfile.REGTYPE)

    def add_opaque(self, path: str) -> None:
        """Hide everything that lower layers hold below the directory `path`."""
        self._put(Entry(path, OPAQUE, 0o644), tarfile.REGTYPE)

    def close(self) -> LayerIndex:
        """Finish the blob and return its index. The blob is complete on disk after this."""
        self._write(_END_OF_ARCHIVE)
        self._flush_frame()
        while self._in_flight:
            self._collect()
        self._out.close()
        return LayerIndex(
            digest="sha256:" + self._digest.hexdigest(),
            diff_id="sha256:" + self._diff.hexdigest(),
            size=self._size,
            media_type=MEDIA_TYPE_ZSTD,
            entries=tuple(self._entries),
            frame_size=FRAME_SIZE,
            frames=tuple(self._frames),
        )

    def _duplicate(self, path: str) -> Refusal:
        return Refusal(
            f"{path}: would be in the layer twice",
            hint="two inputs of this layer bring it; see which",
        )

    def _put(self, entry: Entry, tar_type: bytes) -> None:
        check_path(entry.path)
        name = entry.path
        if entry.type == WHITEOUT:
            parent, base = posixpath.split(entry.path)
            name = posixpath.join(parent, WHITEOUT_PREFIX + base)
        elif entry.type == OPAQUE:
            name = posixpath.join(entry.path, OPAQUE_NAME)
        elif posixpath.basename(entry.path).startswith(WHITEOUT_PREFIX):
            raise Refusal(
                f"{entry.path}: names that start with {WHITEOUT_PREFIX} mean whiteouts",
                hint="no layer can hold such a file; whoever brings it must leave it out",
            )
        # An opaque marker stands beside its directory's own entry, so it has a key of its own.
        key = name if entry.type == OPAQUE else entry.path
        if key in self._seen:
            raise self._duplicate(entry.path)
        self._add_parents(name)
        self._seen[key] = len(self._entries)
        self._entries.append(entry)
        size = entry.size if tar_type == tarfile.REGTYPE else 0
        self._write(
            tar_header(
                name, tar_type, mode=entry.mode, size=size, mtime=self._epoch, link=entry.link
            )
        )

    def _add_parents(self, name: str) -> None:
        parent = posixpath.dirname(name)
        missing = []
        while parent and parent not in self._seen:
            missing.append(parent)
            parent = posixpath.dirname(parent)
        if parent and self._entries[self._seen[parent]].type != DIRECTORY:
            raise Refusal(
                f"{name}: {parent} is no directory in this layer",
                hint="one input brings a file where another has a directory; see which",
            )
        for path in reversed(missing):
            self._put(Entry(path, DIRECTORY, self._directory_mode(path)), tarfile.DIRTYPE)

    def _write(self, data: bytes) -> None:
        self._buffer += data
        self._offset += len(data)
        while len(self._buffer) >= FRAME_SIZE:
            self._submit(bytes(memoryview(self._buffer)[:FRAME_SIZE]))
            del self._buffer[:FRAME_SIZE]

    def _flush_frame(self) -> None:
        if self._buffer:
            self._submit(bytes(self._buffer))
            self._buffer.clear()

    def _submit(self, piece: bytes) -> None:
        while len(self._in_flight) >= self._max_in_flight:
            self._collect()
        hashed = self._hasher.submit(self._diff.update, piece)
        self._in_flight.append((hashed, self._compressors.submit(_compress, piece, self._level)))

    def _collect(self) -> None:
        hashed, compressed = self._in_flight.popleft()
        frame = compressed.result()
        hashed.result()
        self._out.write(frame)
        self._digest.update(frame)
        self._size += len(frame)
        self._frames.append(len(frame))


def _compress(piece: bytes, level: int) -> bytes:
    try:
        return zstandard.ZstdCompressor(level=level).compress(piece)
    except zstandard.ZstdError as error:  # of bytes in memory: for want of it, and nothing else
        raise MemoryError(str(error)) from error

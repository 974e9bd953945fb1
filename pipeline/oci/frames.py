"""The frames of a zstd blob, found by its block headers alone: nothing is decompressed.

Format: RFC 8878, 3.1.1 (frames) and 3.1.2 (skippable frames). A blob of frames of one size each
allows random access, whoever wrote it; that is how our own layers are told from other ones.
"""

from __future__ import annotations

from typing import NamedTuple

from pipeline.oci.blob import Blob, opened

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
HEADER = 18  # bytes of the longest frame header: magic, descriptor, window, dictionary, size
_BLOCK = 3  # bytes of a block's header
_DICTIONARY_ID = (0, 1, 2, 4)
_CONTENT_SIZE = (0, 2, 4, 8)
_RLE, _RESERVED = 1, 3
# A frame is decompressed whole, so it must fit into memory; larger ones are read as a stream.
MAX_FRAME = 16 * 1024 * 1024
_CHUNK = 1024 * 1024


class Frames(NamedTuple):
    """Frames of `size` bytes of content each, the last one fewer; `compressed` are their sizes."""

    size: int
    compressed: tuple[int, ...]


class FrameFault(ValueError):
    """The blob is no whole number of frames; says how."""


class FrameScan:
    """Finds the frames of a blob whose bytes pass by, in pieces of any size.

    The sizes are what the headers declare: whoever decompresses a frame holds it to that. Raises
    FrameFault, for a blob that is cut off too: a decompressor that streams takes that for its end.
    """

    def __init__(self) -> None:
        self._contents: list[int | None] = []
        self._compressed: list[int] = []
        self._begin = 0  # of this frame; positions are those in the blob
        self._next = 0  # of the next header: of a frame, or of a block
        self._content: int | None = None
        self._checksum = 0
        self._inside = False  # of a frame: the next header is a block's
        self._held = b""  # the start of a header that is not there in full
        self._position = 0  # of what comes next, `_held` included

    def feed(self, data: bytes | memoryview) -> None:
        """Look at the bytes that follow."""
        if self._held:
            data = b"".join((self._held, data))
        at = self._next - self._position
        size = len(data)
        while at + (_BLOCK if self._inside else HEADER) <= size:
            at = self._block(data, at) if self._inside else self._frame(data, at)
        self._keep(data, at)

    def close(self) -> Frames | None:
        """Say that this was all; returns the frames if they allow random access, otherwise None."""
        data, at = self._held, self._next - self._position
        while self._inside or at < len(data):
            if at + (_BLOCK if self._inside else 0) > len(data):
                raise FrameFault("it ends inside a zstd frame")
            at = self._block(data, at) if self._inside else self._frame(data, at)
        if at > len(data):
            raise FrameFault("it ends inside a zstd frame")
        contents = self._contents
        size = contents[0] if contents else None
        regular = bool(size) and all(one == size for one in contents[:-1])
        if not size or not regular or size > MAX_FRAME or (contents[-1] or size + 1) > size:
            return None
        return Frames(size, tuple(self._compressed))

    def _keep(self, data: bytes | memoryview, at: int) -> None:
        """Remember where the next header is, and what there is of it."""
        start = min(at, len(data))
        self._next = self._position + at
        self._position += start
        self._held = bytes(data[start:])

    def _frame(self, data: bytes | memoryview, at: int) -> int:
        """Read a frame's header; returns where the next one is in `data`."""
        header = bytes(data[at : at + HEADER])
        self._begin = self._position + at
        magic = header[:4]
        if magic[1:] == _SKIPPABLE and magic[0] >> 4 == 5:
            after = at + 8 + int.from_bytes(header[4:8], "little")
            self._add(None, after)
            return after
        if magic != _MAGIC or len(header) < 6:
            raise FrameFault("it is no zstd data, or is followed by something else")
        content, length = _declared(header)
        self._content = content
        self._checksum = 4 * (header[4] >> 2 & 1)
        self._inside = True
        return at + length

    def _block(self, data: bytes | memoryview, at: int) -> int:
        """Read a block's header; returns where the next one is in `data`."""
        block = int.from_bytes(data[at : at + _BLOCK], "little")
        kind = block >> 1 & 3
        if kind == _RESERVED:
            raise FrameFault("it holds a zstd block of no known type")
        after = at + _BLOCK + (1 if kind == _RLE else block >> 3)
        if block & 1:
            after += self._checksum
            self._inside = False
            self._add(self._content, after)
        return after

    def _add(self, content: int | None, after: int) -> None:
        self._contents.append(content)
        self._compressed.append(self._position + after - self._begin)


def _declared(header: bytes) -> tuple[int | None, int]:
    """Return the bytes of content that a frame's header declares, and the length of the header."""
    descriptor = header[4]
    single = descriptor >> 5 & 1
    start = 5 + (not single) + _DICTIONARY_ID[descriptor & 3]
    width = _CONTENT_SIZE[descriptor >> 6] or single
    content = int.from_bytes(header[start : start + width], "little") + 256 * (width == 2)
    return content if width else None, start + width


def may_be_frames(start: bytes) -> bool:
    """Whether the first HEADER bytes of a blob begin a frame as those that allow random access."""
    if start[:4] != _MAGIC or len(start) < 6:
        return False
    return 0 < (_declared(start)[0] or 0) <= MAX_FRAME


def find_frames(blob: Blob) -> Frames | None:
    """Return the frames of a blob that allows random access, otherwise None; see `FrameScan`."""
    scan = FrameScan()
    with opened(blob) as file:
        while data := file.read(_CHUNK):
            scan.feed(data)
    return scan.close()

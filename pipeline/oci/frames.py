"""The frames of a zstd blob, found by its block headers alone: nothing is decompressed.

Format: RFC 8878, 3.1.1 (frames) and 3.1.2 (skippable frames). A blob of frames of one size each
allows random access, whoever wrote it; that is how our own layers are told from other ones.
"""

from __future__ import annotations

import os
from typing import BinaryIO, NamedTuple

from pipeline.oci.blob import Blob, opened

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = b"\x2a\x4d\x18"
_HEADER = 18  # bytes of the longest frame header: magic, descriptor, window, dictionary, size
_DICTIONARY_ID = (0, 1, 2, 4)
_CONTENT_SIZE = (0, 2, 4, 8)
_RLE, _RESERVED = 1, 3
# A frame is decompressed whole, so it must fit into memory; larger ones are read as a stream.
MAX_FRAME = 16 * 1024 * 1024


class Frames(NamedTuple):
    """Frames of `size` bytes of content each, the last one fewer; `compressed` are their sizes."""

    size: int
    compressed: tuple[int, ...]


class FrameFault(ValueError):
    """The blob is no whole number of frames; says how."""


def find_frames(blob: Blob) -> Frames | None:
    """Return the frames of a blob that allows random access, otherwise None.

    The sizes are what the headers declare: whoever decompresses a frame holds it to that. Raises
    FrameFault for a blob that is cut off: a decompressor that streams takes that for its end.
    """
    with opened(blob) as file:
        end = file.seek(0, os.SEEK_END)
        contents: list[int | None] = []
        compressed: list[int] = []
        position = 0
        while position < end:
            content, after = _frame(file, position)
            if after > end:
                raise FrameFault("it ends inside a zstd frame")
            contents.append(content)
            compressed.append(after - position)
            position = after
    size = contents[0] if contents else None
    regular = bool(size) and all(one == size for one in contents[:-1])
    if not size or not regular or size > MAX_FRAME or (contents[-1] or size + 1) > size:
        return None
    return Frames(size, tuple(compressed))


def _frame(file: BinaryIO, position: int) -> tuple[int | None, int]:
    """Return what the frame at a position declares to hold, and where the next one begins."""
    file.seek(position)
    header = file.read(_HEADER)
    magic = header[:4]
    if magic[1:] == _SKIPPABLE and magic[0] >> 4 == 5:
        return None, position + 8 + int.from_bytes(header[4:8], "little")
    if magic != _MAGIC or len(header) < 6:
        raise FrameFault("it is no zstd data, or is followed by something else")
    descriptor = header[4]
    single = descriptor >> 5 & 1
    start = 5 + (not single) + _DICTIONARY_ID[descriptor & 3]
    width = _CONTENT_SIZE[descriptor >> 6] or single
    content = int.from_bytes(header[start : start + width], "little") + 256 * (width == 2)
    after = position + start + width
    last = False
    while not last:
        file.seek(after)
        raw = file.read(3)
        if len(raw) < 3:
            raise FrameFault("it ends inside a zstd frame")
        block = int.from_bytes(raw, "little")
        last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if kind == _RESERVED:
            raise FrameFault("it holds a zstd block of no known type")
        after += 3 + (1 if kind == _RLE else size)
    return content if width else None, after + 4 * (descriptor >> 2 & 1)

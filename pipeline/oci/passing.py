"""A large binary that passes by as a stream, of which only what a loader reads is held.

That is its head, where the headers and nearly always the names are, its dynamic segment, and its
end, where tools that change a finished binary put the names anew.
"""

from __future__ import annotations

import io
from typing import BinaryIO, cast

from pipeline.oci.elf import Elf, dynamic_span, read_elf

_HEAD, _TAIL = 8 * 1024 * 1024, 4 * 1024 * 1024
_HEADERS = 64 * 1024  # bytes in which every header is that is looked for
_FIXED = 2  # spans that are held of every file


class NotHeld(Exception):
    """A part of the file is needed that was not kept: the file itself must be read."""


class Passing:
    """What is held of one file of `size` bytes."""

    def __init__(self, size: int):
        self._size = size
        self._spans = [(0, min(_HEAD, size)), (max(0, size - _TAIL), size)]
        self._parts = [bytearray() for _ in self._spans]
        self._position = 0

    def add(self, piece: memoryview) -> None:
        """Take the bytes that follow."""
        if len(self._spans) == _FIXED and self._position < _HEADERS:
            head = self._parts[0]
            found = dynamic_span(io.BytesIO(head + piece[:_HEADERS]))
            if found is not None:
                self._spans.append((found[0], found[0] + found[1]))
                self._parts.append(head[found[0] :])
        end = self._position + len(piece)
        for (first, last), part in zip(self._spans, self._parts, strict=True):
            if first < end and last > self._position:
                part += piece[max(0, first - self._position) : last - self._position]
        self._position = end

    def elf(self) -> Elf | None:
        """Return what a loader reads of it, None for nothing. Raises NotHeld."""
        return read_elf(cast(BinaryIO, _Held(self)))

    def read_at(self, position: int, size: int) -> bytes:
        """Return bytes of the file, fewer at its end. Raises NotHeld."""
        end = min(position + size, self._size)
        if position >= end:
            return b""
        for (first, last), part in zip(self._spans, self._parts, strict=True):
            if first <= position and end <= last:
                return bytes(part[position - first : end - first])
        raise NotHeld


class _Held(io.RawIOBase):
    """The file as `read_elf` reads it."""

    def __init__(self, file: Passing):
        self._file, self._at = file, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset < 0:
            raise ValueError("a negative position")
        self._at = offset
        return offset

    def read(self, size: int = -1) -> bytes:
        data = self._file.read_at(self._at, size)
        self._at += len(data)
        return data

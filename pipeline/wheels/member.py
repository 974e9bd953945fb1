"""One member of a wheel: inflated, counted and verified while it is read, once.

`zipfile`'s own stream costs more per file than inflating most files of a wheel does; this one reads
a small member with a single call. Zip structures: APPNOTE.TXT 4.3.7 (local file header).
"""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zipfile
from dataclasses import dataclass
from typing import BinaryIO

from zlib_ng import zlib_ng as zlib

from pipeline.errors import Refusal

WHOLE = 1024 * 1024  # bytes: up to this size a member is read in one piece
_MAX_WHOLE = 256 * 1024 * 1024
_INPUT = 256 * 1024
_LOCAL_HEADER = struct.Struct("<4sHHHHHLLLHH")
_SIGNATURE = b"PK\x03\x04"
_SLACK = 256  # bytes: room for a name that is not ASCII and for extra fields
_UTF8_NAME = 0x800
_RAW_DEFLATE = -zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class Expected:
    """What a member must hold.

    `algorithm` and hex `digest` are RECORD's ("" for members without a hash there), `size` is the
    zip directory's. `accepted` is the hex sha256 of the content that a `known` entry names instead.
    """

    algorithm: str
    digest: str
    size: int
    accepted: str = ""


class Reader:
    """Reads an open wheel at any place. Members follow each other, so what follows comes along:
    a system call for every small one would cost more than inflating it."""

    def __init__(self, file: BinaryIO):
        self._file = file.fileno()
        self._start = 0
        self._window = b""

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes from a position on, fewer at the end of the file."""
        at = position - self._start
        if 0 <= at <= len(self._window) - size:
            return self._window[at : at + size]
        if size > _INPUT:
            return os.pread(self._file, size, position)
        self._start, self._window = position, os.pread(self._file, 4 * _INPUT, position)
        return self._window[:size]


class Member(io.RawIOBase):
    """The content of one member as a stream.

    Its CRC and sizes are checked when the end is reached; `verify` holds it against RECORD. All
    raise a Refusal that names wheel and member.
    """

    def __init__(self, file: Reader, info: zipfile.ZipInfo, expected: Expected, wheel: str):
        self.path = info.orig_filename
        self.size = info.file_size
        self.settled = False
        self._file = file
        self._info = info
        self._expected = expected
        self._wheel = wheel
        self._position = -1
        self._left = info.compress_size
        self._crc = 0
        self._count = 0
        self._ahead = b""
        self._tail = b""
        self._read_ahead = b""
        self._inflate = (
            zlib.decompressobj(_RAW_DEFLATE) if info.compress_type == zipfile.ZIP_DEFLATED else None
        )
        other = expected.algorithm not in ("", "sha256")
        self._other = hashlib.new(expected.algorithm) if other else None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that is left for a negative one, b"" at the end."""
        if size < 0:
            return b"".join(iter(lambda: self.read(WHOLE), b""))
        if self._ahead:
            data, self._ahead = self._ahead[:size], self._ahead[size:]
            return data
        return self._next(size)

    def peek(self, size: int) -> bytes:
        """Return the first bytes, at least `size` of them if there are so many; consumes none."""
        while len(self._ahead) < size and (data := self._next(WHOLE)):
            self._ahead += data
        return self._ahead

    def read_verified(self) -> bytes:
        """Return the whole content, verified; of a script, say. Refuses one beyond any memory."""
        if self.size > _MAX_WHOLE:
            raise self._refusal(f"has {self.size:,} bytes, too many to be read whole")
        data = self.read()
        self.verify(hashlib.sha256(data).hexdigest())
        return data

    def verify(self, sha256: str) -> None:
        """Judge the content that was read by its hex sha256. Raises Refusal."""
        if self._count != self.size or self._ahead:
            raise RuntimeError(f"{self._wheel}: {self.path} was verified before its end")
        self.settled = True
        expected = self._expected
        if expected.accepted:
            if expected.accepted != sha256:
                said = f"the known record-mismatch says {expected.accepted}"
                raise self._refusal(f"has sha256 {sha256}, {said}")
        elif expected.algorithm and expected.digest != (
            self._other.hexdigest() if self._other else sha256
        ):
            raise self._refusal(f"differs from RECORD: its sha256 is {sha256}")

    def pass_over(self) -> None:
        """Say that this content is not wanted: something else is installed in its place."""
        self.settled = True

    def _refusal(self, problem: str) -> Refusal:
        return Refusal(
            f"{self._wheel}: {self.path}: {problem}",
            hint="fetch the wheel again; if it is the same, pin another build or name it as known",
        )

    def _start(self) -> None:
        """Find the data behind the local header; small members come with the same read."""
        at = self._info.header_offset
        more = len(self.path) + _SLACK + min(self._left, _INPUT)
        head = self._file.read(at, _LOCAL_HEADER.size + more)
        if len(head) < _LOCAL_HEADER.size or not head.startswith(_SIGNATURE):
            raise self._refusal("has no local header: the wheel is damaged")
        fields = _LOCAL_HEADER.unpack_from(head)
        flags, name_size, extra_size = fields[2], fields[9], fields[10]
        name = head[_LOCAL_HEADER.size : _LOCAL_HEADER.size + name_size]
        if name != self.path.encode("utf-8" if flags & _UTF8_NAME else "cp437", "replace"):
            raise self._refusal("has another name in its local header")
        start = _LOCAL_HEADER.size + name_size + extra_size
        self._position = at + start
        self._read_ahead = head[start : start + self._left]

    def _take(self, size: int) -> bytes:
        size = min(size, self._left)
        data, self._read_ahead = self._read_ahead[:size], self._read_ahead[size:]
        data = data or self._file.read(self._position, size)
        if not data and self._left:
            raise self._refusal("is cut off: the wheel is truncated")
        self._position += len(data)
        self._left -= len(data)
        return data

    def _next(self, size: int) -> bytes:
        """Inflate the next piece, at most `size` bytes."""
        if self._position < 0:
            self._start()
            if self.size <= WHOLE:
                size = max(size, self.size + 1)  # in one piece; one more shows a lie
        if self._inflate is None:
            data = self._take(min(size, WHOLE))
        else:
            data = self._inflated(size)
        self._crc = zlib.crc32(data, self._crc)
        self._count += len(data)
        if self._other:
            self._other.update(data)
        if not data or self._count >= self.size:
            self._finish()
        return data

    def _inflated(self, size: int) -> bytes:
        assert self._inflate is not None
        try:
            while not self._inflate.eof:
                piece = self._tail or self._take(_INPUT)
                data = self._inflate.decompress(piece, size)
                self._tail = self._inflate.unconsumed_tail
                if data:
                    return data
                if not piece:
                    raise self._refusal("is cut off: its compressed data does not end")
        except zlib.error as error:  # type: ignore[misc]
            raise self._refusal(f"is damaged: {error}") from error
        return b""

    def _finish(self) -> None:
        inflate = self._inflate
        longer = self._count > self.size or bool(inflate and not inflate.eof and self._inflated(1))
        if longer or self._left or (inflate and inflate.unused_data):
            raise self._refusal(f"holds more than the {self.size} bytes that the wheel declares")
        if self._count < self.size:
            raise self._refusal(f"holds {self._count} bytes, the wheel declares {self.size}")
        if self._crc != self._info.CRC:
            raise self._refusal("is damaged: wrong CRC")

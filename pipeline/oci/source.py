"""Bytes in their order, from whatever gives them: what a reader of tars reads from."""

from __future__ import annotations

import os
from typing import BinaryIO

_COPY = 1024 * 1024
_JUMP = 512  # bytes above which a seek is cheaper than a read


class TarFault(ValueError):
    """The archive is damaged, or is made to mislead; says how."""


CUT = "it ends inside an entry"


class Source:
    """Reads from a stream that may return less than it is asked for, and counts: `position` is how
    many bytes have been read or passed over."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._end = 0
        self.position = 0
        if file.seekable():  # a file: what nobody reads is jumped over
            here = file.tell()
            self._end = file.seek(0, os.SEEK_END)
            file.seek(here)

    def upto(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end."""
        data = self._file.read(size)
        if 0 < len(data) < size:
            parts = [data]
            missing = size - len(data)
            while missing and (more := self._file.read(missing)):
                parts.append(more)
                missing -= len(more)
            data = b"".join(parts)
        self.position += len(data)
        return data

    def exactly(self, size: int) -> bytes:
        """Return so many bytes. Raises TarFault when there are fewer."""
        data = self.upto(size)
        if len(data) != size:
            raise TarFault(CUT)
        return data

    def skip(self, size: int) -> None:
        """Pass over so many bytes. Raises TarFault when there are fewer."""
        if self._end and size > _JUMP:
            if self._file.tell() + size > self._end:
                raise TarFault(CUT)
            self._file.seek(size, os.SEEK_CUR)
            self.position += size
            return
        while size:
            size -= len(self.exactly(min(size, _COPY)))

"""Where the bytes of a layer lie: a file of its own, or a part of another file."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, Protocol, cast


@dataclass(frozen=True)
class Part:
    """`size` bytes of a file, from `offset` on: a member of an archive. `name` is the member's."""

    path: Path
    offset: int
    size: int
    name: str

    def open_read(self) -> BinaryIO:
        """Open the part as if it were a file of its own."""
        return cast(BinaryIO, io.BufferedReader(_Window(self.path.open("rb"), self)))

    def __str__(self) -> str:
        return f"{self.path}: {self.name}"


class NotHere(Exception):
    """Blobs must be read that are not on this machine; whoever can bring them does so, and goes on.

    Never seen by a user. `digests` are "sha256:<hex>".
    """

    def __init__(self, *digests: str):
        super().__init__(*digests)
        self.digests = digests


@dataclass(frozen=True)
class Absent:
    """A layer that is known by its index, and lies somewhere else."""

    digest: str

    def open_read(self) -> NoReturn:
        """Raise NotHere."""
        raise NotHere(self.digest)

    def __str__(self) -> str:
        return self.digest


class Readable(Protocol):
    """What can be opened for reading; the stream can seek. Its text names it in messages."""

    def open_read(self) -> BinaryIO: ...


Blob = Path | Readable
"""What a layer can be read from."""


def opened(blob: Blob) -> BinaryIO:
    """Open a blob for reading; the stream can seek."""
    return blob.open("rb") if isinstance(blob, Path) else blob.open_read()


class _Window(io.RawIOBase):
    def __init__(self, file: BinaryIO, part: Part):
        self._file = file
        self._part = part
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._part.size}
        self._position = max(0, start[whence] + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._file.seek(self._part.offset + self._position)
        left = max(0, self._part.size - self._position)
        data = self._file.read(min(len(buffer), left))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

"""Where the bytes of a layer lie: a file of its own, or a part of another file."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
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
        file = self.path.open("rb")

        def read_at(position: int, wanted: int) -> bytes:
            file.seek(self.offset + position)
            return file.read(wanted)

        return cast(BinaryIO, io.BufferedReader(Window(self.size, read_at, file.close)))

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


class Window(io.RawIOBase):
    """`size` bytes that `read_at(position, wanted)` returns some of, as a stream that can seek.

    `close` is called once, when the stream is closed.
    """

    def __init__(
        self,
        size: int,
        read_at: Callable[[int, int], bytes],
        close: Callable[[], None] = lambda: None,
    ):
        self._size, self._read_at, self._close = size, read_at, close
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        self._position = max(0, start[whence] + offset)
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = min(len(buffer), self._size - self._position)
        if left <= 0:
            return 0
        data = self._read_at(self._position, left)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._close()
        super().close()

"""A part of a file as the body of a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

_BLOCK = 1 << 20


class Piece:
    """A part of a file as a request's body: read when it is sent, and again for a second try.

    `moved` is called with the number of bytes as they go, `check` before each block.
    """

    def __init__(
        self,
        path: Path,
        offset: int,
        size: int,
        moved: Callable[[int], None],
        check: Callable[[], None],
    ):
        self._path, self._offset, self.size = path, offset, size
        self._moved, self._check = moved, check
        self._sent = 0
        self._file = path.open("rb")
        self._file.seek(offset)

    def __len__(self) -> int:
        return self.size - self._sent

    def __iter__(self) -> Iterator[bytes]:
        while block := self.read(_BLOCK):
            yield block

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes of the part."""
        self._check()
        left = self.size - self._sent
        block = self._file.read(left if size < 0 else min(size, left))
        self._sent += len(block)
        self._moved(len(block))
        return block

    def close(self) -> None:
        """Close the file."""
        self._file.close()

"""Read, unpack and hash ahead of whoever looks at the bytes, each in a thread of its own.

libzstd, zlib and hashlib let other threads run meanwhile. The bytes lie in a ring of buffers that
are used again and again, so memory is flat, and nothing is copied on the way.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Protocol, Self

from pipeline.oci.source import CUT, Source, TarFault

_NOTHING = memoryview(b"")


class Filling(Protocol):
    """A stream that fills a buffer, or a part of it; nothing of it at the stream's end."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Ahead(Source):
    """The bytes of a stream, which a thread reads ahead, and another one hashes.

    The ring has `units` buffers of `unit` bytes each; of a tar that are whole blocks. Use as a
    context manager. `sha256` and `count` are of all bytes once `drain` has returned.
    `ended` is called in the reading thread at the stream's end, and raises what is wrong with it.
    What goes wrong in that thread is raised where the bytes before it have been read.
    """

    def __init__(
        self,
        stream: Filling,
        ended: Callable[[], None] = lambda: None,
        *,
        unit: int,
        units: int,
    ):
        self._size, self._units = unit, units
        self.position = 0
        self.count = 0
        self.sha256 = hashlib.sha256()
        self._stream, self._ended = stream, ended
        self._unit = _NOTHING
        self._at = 0
        self._over = False
        self._stopped = False
        self._read: SimpleQueue[memoryview | BaseException | None] = SimpleQueue()
        self._plain: SimpleQueue[memoryview | None] = SimpleQueue()
        # One member for each buffer that somebody is through with.
        self._seen: SimpleQueue[None] = SimpleQueue()
        self._hashed: SimpleQueue[None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._fetch, self._hash)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopped = True
        self._seen.put(None)  # it may wait for a buffer
        for thread in self._threads:
            thread.join()

    def upto(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end."""
        end = self._at + size
        if end <= len(self._unit):
            data = self._unit[self._at : end].tobytes()
            self._at = end
            self.position += size
            return data
        data = bytes(self.take(size))
        if 0 < len(data) < size:
            parts = [data]
            missing = size - len(data)
            while missing and (more := self.take(missing)):
                parts.append(bytes(more))
                missing -= len(more)
            data = b"".join(parts)
        return data

    def take(self, size: int) -> memoryview:
        """Return some bytes, at most so many, none only at the end: where they lie, until the next
        call of anything. Of a file in a tar they are its first 512 at least, if it has them."""
        if self._at == len(self._unit) and size:
            self._turn()
        piece = self._unit[self._at : self._at + size]
        taken = len(piece)
        self._at += taken
        self.position += taken
        return piece

    def skip(self, size: int) -> None:
        """Pass over so many bytes. Raises TarFault when there are fewer."""
        while size:
            taken = min(size, len(self._unit) - self._at)
            self._at += taken
            self.position += taken
            size -= taken
            if size and not self._turn():
                raise TarFault(CUT)

    def drain(self) -> None:
        """Pass over all that is left."""
        while self._turn():
            pass
        for thread in self._threads:
            thread.join()

    def _turn(self) -> bool:
        """Go to the next buffer; False at the end."""
        if self._over:
            return False
        if self._unit:
            self._seen.put(None)
        self._unit, self._at = _NOTHING, 0
        unit = self._read.get()
        if isinstance(unit, BaseException):
            self._over = True
            raise unit
        self._over = unit is None
        self._unit = unit or _NOTHING
        return not self._over

    def _fetch(self) -> None:
        ring: list[memoryview] = []
        end: BaseException | None = None
        number = 0
        try:
            while not self._stopped:
                if number < self._units:
                    ring.append(memoryview(bytearray(self._size)))
                else:
                    self._seen.get()
                    self._hashed.get()
                unit = self._fill(ring[number % self._units])
                number += 1
                if not unit:
                    self._ended()
                    break
                self.count += len(unit)
                self._plain.put(unit)
                self._read.put(unit)
        except BaseException as error:  # noqa: BLE001 - raised in the reader's thread
            end = error
        self._plain.put(None)
        self._read.put(end)

    def _fill(self, buffer: memoryview) -> memoryview:
        size = 0
        while size < self._size and (got := self._stream.readinto(buffer[size:])):
            size += got
        return buffer[:size]

    def _hash(self) -> None:
        while (unit := self._plain.get()) is not None:
            self.sha256.update(unit)
            self._hashed.put(None)

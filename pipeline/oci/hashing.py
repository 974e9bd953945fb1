"""Hash in a thread of its own: hashlib lets other threads run meanwhile."""

from __future__ import annotations

import queue
import threading
from types import TracebackType
from typing import Protocol, Self

_AHEAD = 4  # chunks that wait at most: memory stays flat


class Digest(Protocol):
    """What hashlib makes."""

    def update(self, data: bytes, /) -> object: ...
    def hexdigest(self) -> str: ...


class HashThread:
    """Updates a digest in the order in which it is given data. It may be read after the `with`."""

    def __init__(self, digest: Digest) -> None:
        self._digest = digest
        self._queue: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def update(self, data: bytes) -> None:
        """Let the thread update the digest; waits while it is far behind."""
        self._queue.put(data)

    def _run(self) -> None:
        while (data := self._queue.get()) is not None:
            self._digest.update(data)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._queue.put(None)
        self._thread.join()

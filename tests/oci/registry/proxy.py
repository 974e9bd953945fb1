"""A TCP proxy before a registry that breaks one connection off in the middle of an upload."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Cutting:
    """Forwards connections to `port`; the one that sends the byte after `limit` is cut."""

    def __init__(self, port: int, limit: int):
        self._target, self._limit = port, limit
        self._lock = threading.Lock()
        self.cut = 0
        self.sent = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for job in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._copy, args=job, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket, upwards: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if upwards:
                    with self._lock:
                        self.sent += len(data)
                        if self.sent > self._limit and not self.cut:
                            self.cut = self.sent
                            break
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def cutting_proxy(port: int, limit: int) -> Iterator[Cutting]:
    """Run a proxy for the block."""
    proxy = Cutting(port, limit)
    try:
        yield proxy
    finally:
        proxy.close()

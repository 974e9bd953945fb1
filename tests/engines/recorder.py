"""A relay before a real Dagger session that keeps what was asked and whether it was accepted."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.engines.shapes import shapes


@dataclass
class Record:
    """Shapes of requests that came back without an error."""

    accepted: set[str] = field(default_factory=set)


@contextmanager
def relay(port: int) -> Iterator[tuple[int, Record]]:
    """Relay to the session at `port`; gives the port to use instead, and the record."""
    record = Record()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}{self.path}",
                body,
                {
                    "Authorization": self.headers["Authorization"],
                    "Content-Type": "application/json",
                },
            )
            try:
                with urllib.request.urlopen(request) as response:
                    status, data = response.status, response.read()
            except urllib.error.HTTPError as error:
                status, data = error.code, error.read()
            query = json.loads(body)["query"]
            if status == 200 and "errors" not in json.loads(data) and "__schema" not in query:
                record.accepted |= shapes(query)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1], record
    finally:
        server.shutdown()
        server.server_close()

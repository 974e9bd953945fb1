"""A registry on the loopback, in memory, that does what it is told to, also the wrong thing."""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

JSON = "application/json"


@dataclass
class Fault:
    """What happens to the next `times` requests whose "METHOD path" matches `pattern`.

    status     this answer, with `headers` and `body`, instead of the right one
    carry_out  do what was asked for all the same
    cut        close the connection after so many bytes of the right body
    drop       close the connection without an answer
    stall      wait for so many seconds in the middle of the right body
    spoil      serve the right body with its last byte changed
    keep       read so many bytes of the request's body into the upload, then close the connection
    """

    pattern: str
    times: int = 1
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    carry_out: bool = False
    cut: int = -1
    drop: bool = False
    stall: float = 0
    spoil: bool = False
    keep: int = -1


@dataclass
class Registry:
    """The state of a server. `log` holds (method, path, status, Authorization header)."""

    host: str = ""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, bytes] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    log: list[tuple[str, str, int, str]] = field(default_factory=list)
    received: int = 0
    token: str = ""
    password: str = ""
    ranges: bool = True
    page: int = 0
    other: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, data: bytes) -> str:
        """Store a blob and return its digest."""
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def asked(self, pattern: str) -> list[tuple[str, str, int, str]]:
        """The requests of the log that match "METHOD path"."""
        return [one for one in self.log if re.search(pattern, f"{one[0]} {one[1]}")]


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry
    fault: Fault | None

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        fault = self.fault
        if fault and fault.status and not self._mute:
            status, body, headers = fault.status, fault.body, fault.headers
        authorization = self.headers.get("Authorization", "")
        with self.registry.lock:
            self.registry.log.append((self.command, self.path, status, authorization))
        if fault and fault.drop:
            self.close()
            return
        self.send_response(status)
        sent = {"Content-Length": str(len(body)), **(headers or {})}
        for key, value in sent.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault and fault.spoil:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if fault and fault.cut >= 0:
            self.wfile.write(body[: fault.cut])
            self.close()
            return
        if fault and fault.stall:
            half = len(body) // 2
            self.wfile.write(body[:half])
            self.wfile.flush()
            threading.Event().wait(fault.stall)
            body = body[half:]
        self.wfile.write(body)

    def close(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def error(self, status: int, code: str) -> None:
        body = json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode()
        self.answer(status, body, {"Content-Type": JSON})

    def do(self) -> None:
        registry, self._mute = self.registry, False
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length", 0))
        self.fault = None
        with registry.lock:
            for fault in registry.faults:
                if fault.times and re.search(fault.pattern, f"{self.command} {self.path}"):
                    fault.times -= 1
                    self.fault = fault
                    break
        if self.fault and self.fault.keep >= 0:
            name = url.path.rpartition("/")[2]
            registry.uploads[name] += self.rfile.read(self.fault.keep)
            registry.received += self.fault.keep
            self.close()
            return
        data = self.rfile.read(length)
        registry.received += len(data) if self.command in ("PATCH", "PUT") else 0
        if self.fault and self.fault.status and not self.fault.carry_out:
            self.answer(200)
            return
        if url.path == "/token":
            wanted = registry.password
            if wanted and self.headers.get("Authorization", "") != wanted:
                self.error(401, "UNAUTHORIZED")
                return
            body = json.dumps({"token": registry.token, "expires_in": 300}).encode()
            self.answer(200, body, {"Content-Type": JSON})
            return
        if registry.token and self.headers.get("Authorization") != f"Bearer {registry.token}":
            realm = f'Bearer realm="http://{registry.host}/token",service="s",scope="x:y:z"'
            body = b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you"}]}'
            self.answer(401, body, {"WWW-Authenticate": realm})
            return
        self.route(url.path, query, data)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do

    def route(self, path: str, query: dict[str, str], data: bytes) -> None:
        if path == "/v2/":
            self.answer(200, b"{}")
        elif found := re.fullmatch(r"/v2/.+/manifests/([^/]+)", path):
            self.manifest(found[1], data)
        elif re.fullmatch(r"/v2/.+/blobs/uploads/", path):
            self.open(path, query)
        elif found := re.fullmatch(r"/v2/.+/blobs/uploads/([0-9]+)", path):
            self.upload(path, found[1], query, data)
        elif found := re.fullmatch(r"/v2/.+/blobs/(sha256:[0-9a-f]{64})", path):
            self.blob(found[1])
        elif found := re.fullmatch(r"/v2/.+/tags/list", path):
            self.list(path, query)
        elif found := re.fullmatch(r"/elsewhere/(sha256:[0-9a-f]{64})", path):
            self.answer(200, self.registry.blobs[found[1]])
        else:
            self.error(404, "UNSUPPORTED")

    def manifest(self, wanted: str, data: bytes) -> None:
        registry = self.registry
        if self.command == "PUT":
            digest = "sha256:" + hashlib.sha256(data).hexdigest()
            document = json.loads(data)
            needed = [document["config"], *document["layers"]]
            if not all(one["digest"] in registry.blobs for one in needed):
                self.error(400, "MANIFEST_BLOB_UNKNOWN")
                return
            registry.manifests[digest] = (data, self.headers["Content-Type"])
            if not wanted.startswith("sha256:"):
                registry.tags[wanted] = digest
            self.answer(201, headers={"Docker-Content-Digest": digest})
            return
        digest = registry.tags.get(wanted, wanted)
        if digest not in registry.manifests:
            self.error(404, "MANIFEST_UNKNOWN")
            return
        body, kind = registry.manifests[digest]
        self.answer(200, body, {"Content-Type": kind, "Docker-Content-Digest": digest})

    def blob(self, digest: str) -> None:
        registry = self.registry
        if digest not in registry.blobs:
            self.error(404, "BLOB_UNKNOWN")
            return
        data = registry.blobs[digest]
        if registry.other and self.command == "GET":
            self.answer(307, headers={"Location": f"{registry.other}/elsewhere/{digest}?sig=x"})
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted and registry.ranges:
            start, end = int(wanted[1]), int(wanted[2] or len(data) - 1)
            if start >= len(data):
                self.error(416, "RANGE_INVALID")
                return
            part = data[start : end + 1]
            said = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
            self.answer(206, part, {"Content-Range": said})
            return
        self.answer(200, data, {"Docker-Content-Digest": digest})

    def open(self, path: str, query: dict[str, str]) -> None:
        registry = self.registry
        name = str(len(registry.uploads))
        registry.uploads[name] = b""
        self.answer(202, headers={"Location": f"{path}{name}?state=secret", "Range": "0-0"})

    def upload(self, path: str, name: str, query: dict[str, str], data: bytes) -> None:
        registry = self.registry
        if name not in registry.uploads:
            self.error(404, "BLOB_UPLOAD_UNKNOWN")
            return
        have = registry.uploads[name]
        if self.command == "PATCH":
            start = int(self.headers.get("Content-Range", "0-").partition("-")[0])
            if start != len(have):
                self.error(416, "RANGE_INVALID")
                return
        have = registry.uploads[name] = have + data
        place = {"Location": f"{path}?state=secret", "Range": f"0-{max(len(have) - 1, 0)}"}
        if self.command != "PUT":
            self.answer(202 if self.command == "PATCH" else 204, headers=place)
            return
        digest = "sha256:" + hashlib.sha256(have).hexdigest()
        if digest != query["digest"]:
            self.error(400, "DIGEST_INVALID")
            return
        registry.blobs[digest] = have
        del registry.uploads[name]
        self.answer(201, headers={"Docker-Content-Digest": digest})

    def list(self, path: str, query: dict[str, str]) -> None:
        registry = self.registry
        tags = sorted(tag for tag in registry.tags if tag > query.get("last", ""))
        page = tags[: registry.page] if registry.page else tags
        headers = {"Content-Type": JSON}
        if len(page) < len(tags):
            headers["Link"] = f'<{path}?last={page[-1]}>; rel="next"'
        self.answer(200, json.dumps({"name": "x", "tags": page}).encode(), headers)


@contextmanager
def serve(**state: Any) -> Iterator[Registry]:
    """Run a registry for the block."""
    registry = Registry(**state)

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that was killed, and a server that was told to break off."""

    handler = type("Handler", (_Handler,), {"registry": registry})
    server = Server(("127.0.0.1", 0), handler)
    registry.host = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

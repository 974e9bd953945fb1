"""Servers on the loopback: one for an index, an archive or a release page, and a registry."""

from __future__ import annotations

import hashlib
import http.server
import io
import signal
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from pipeline.pins import LockedWheel
from tests.examples import examples  # noqa: F401 - registers the profiles
from tests.oci.registry.server import Registry, serve

# Under nohup, and in the background of a shell, these are ignored, and so they would be by every
# program that a test starts, and stops with one of them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@dataclass
class Site:
    """What the server serves, and what it was asked for.

    files      path -> bytes
    refuse     path -> status to answer with instead
    cut        paths whose body ends after half of the announced bytes
    slow       paths whose second half comes only after `release` is set
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    refuse: dict[str, int] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    _links: dict[str, list[str]] = field(default_factory=dict)

    def project(self, name: str) -> None:
        """List a project on the index, without files so far."""
        lines = self._links.setdefault(name, [])
        page = "<!DOCTYPE html><html><body>\n" + "\n".join(lines) + "\n</body></html>\n"
        self.files[f"/simple/{name}/"] = page.encode()

    def publish(
        self,
        wheel: LockedWheel,
        data: bytes,
        *,
        yanked: str | None = None,
        digest: bool = True,
        present: bool = True,
    ) -> None:
        """Put a file on the index (PEP 503 page), with the digest of what is served."""
        mark = f' data-yanked="{yanked}"' if yanked is not None else ""
        fragment = "#sha256=" + hashlib.sha256(data).hexdigest() if digest else ""
        href = "../../files/" + wheel.filename.replace("+", "%2B") + fragment
        link = f'<a href="{href}"{mark}>{wheel.filename}</a>'
        self._links.setdefault(wheel.name, []).append(link)
        self.project(wheel.name)
        if present:
            self.files[f"/files/{wheel.filename}"] = data


@pytest.fixture
def site() -> Iterator[Site]:
    """A running server; it forgets everything after the test."""
    served = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.replace("%2B", "+")
            served.asked.append(path)
            status = served.refuse.get(path, 200 if path in served.files else 404)
            body = served.files[path] if status == 200 else b"no\n"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if path.startswith("/simple/"):
                self.send_header("Content-Type", "text/html")
            self.end_headers()
            half = len(body) // 2
            self.wfile.write(body[:half])
            if path in served.slow:
                self.wfile.flush()
                served.release.wait(60)
            if path in served.cut:
                self.close_connection = True
                return
            self.wfile.write(body[half:])

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent."""

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that was killed is no error of the test."""

    server = Server(("127.0.0.1", 0), Handler)
    served.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield served
    served.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def pip_asks(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    """Point pip at the loopback, and at nothing else, for the test."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def tiny_wheel(
    name: str, version: str, tag: str = "py3-none-any", *, text: str = "", url: str | None = None
) -> tuple[LockedWheel, bytes]:
    """A wheel of one module, and its lock entry; `text` makes it differ."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    purelib = str(tag.endswith("any")).lower()
    files = {
        f"{stem}.py": f"V = {version!r}  # {text}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {purelib}\nTag: {tag}\n",
        f"{info}/RECORD": "",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content)
    data = out.getvalue()
    digest = hashlib.sha256(data).hexdigest()
    return LockedWheel(name, version, f"{stem}-{version}-{tag}.whl", len(data), digest, url), data


@pytest.fixture(name="tiny_wheel")
def _tiny_wheel():  # type: ignore[no-untyped-def]
    return tiny_wheel


@pytest.fixture
def registry() -> Iterator[Registry]:
    """An empty registry that does what a test tells it to."""
    with serve() as running:
        yield running

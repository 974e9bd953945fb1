"""Debian's docker-registry, started for a test: plain, with passwords, with TLS of our own CA."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_registry = pytest.mark.skipif(
    shutil.which("docker-registry") is None, reason="docker-registry is not installed"
)
needs_skopeo = pytest.mark.skipif(shutil.which("skopeo") is None, reason="skopeo is not installed")
needs_tls = pytest.mark.skipif(
    shutil.which("openssl") is None or shutil.which("htpasswd") is None,
    reason="openssl or htpasswd is not installed",
)
USER, PASSWORD = "me", "pass-3f9a-word"


@dataclass(frozen=True)
class Real:
    """A running registry: host:port, its directory, its log, and the CA that it needs, if any."""

    host: str
    data: Path
    log: Path
    ca: Path | None = None

    def blobs(self) -> set[str]:
        """Digests of all blobs that it holds."""
        root = self.data / "docker/registry/v2/blobs/sha256"
        return {f"sha256:{path.parent.name}" for path in root.glob("*/*/data")}

    def requests(self, method: str) -> int:
        """How many requests of a method it has answered."""
        return self.log.read_text(encoding="utf-8").count(f'"{method} /v2/')


@contextmanager
def run_registry(directory: Path, *, tls: bool = False, passwords: bool = False) -> Iterator[Real]:
    """Run a registry for the block; its data stay in `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    name = "localhost" if tls else "127.0.0.1"
    config = [
        "version: 0.1",
        "log: {level: warn}",
        f"storage: {{filesystem: {{rootdirectory: {directory}/data}}, delete: {{enabled: true}}}}",
        "http:",
        f"  addr: 127.0.0.1:{port}",
        "  secret: for-tests-only",
    ]
    if tls:
        _certificate(directory)
        config.append(
            f"  tls: {{certificate: {directory}/server.crt, key: {directory}/server.key}}"
        )
    if passwords:
        line = subprocess.run(
            ["htpasswd", "-Bbn", USER, PASSWORD], check=True, capture_output=True, text=True
        ).stdout
        (directory / "htpasswd").write_text(line, encoding="utf-8")
        config += ["auth:", f"  htpasswd: {{realm: tests, path: {directory}/htpasswd}}"]
    (directory / "config.yml").write_text("\n".join(config) + "\n", encoding="utf-8")
    log = directory / "log"
    with log.open("w") as out:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(directory / "config.yml")],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OTEL_TRACES_EXPORTER": "none"},
        )
    try:
        _wait(port, process, log)
        yield Real(f"{name}:{port}", directory / "data", log, directory / "ca.crt" if tls else None)
    finally:
        process.terminate()
        process.wait(10)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"docker-registry did not start: {log.read_text(encoding='utf-8')}")


def _certificate(directory: Path) -> None:
    """Make a CA and a certificate for localhost by it."""

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], cwd=directory, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2",
            "-subj", "/CN=tests", "-addext", "basicConstraints=critical,CA:TRUE")  # fmt: skip
    openssl("req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (directory / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n", encoding="utf-8")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "server.crt", "-days", "2", "-extfile", "ext")  # fmt: skip

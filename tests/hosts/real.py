"""Podman with a store of a test's own, and an sshd on the loopback with a key of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

_SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
needs_podman = pytest.mark.skipif(
    shutil.which("podman") is None or os.geteuid() != 0,
    reason="podman is not installed, or this is not root",
)
needs_sshd = pytest.mark.skipif(
    not Path(_SSHD).is_file() or shutil.which("ssh") is None or os.geteuid() != 0,
    reason="openssh's server or client is not installed, or this is not root",
)


def podman_store(directory: Path) -> dict[str, str]:
    """Return the environment in which podman keeps everything below a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / "storage.conf"
    configuration.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/root"\nrunroot = "{directory}/run"\n',
        encoding="utf-8",
    )
    return {"CONTAINERS_STORAGE_CONF": str(configuration)}


@contextmanager
def run_sshd(directory: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Run a server for the block; commands there have `env`.

    Gives a directory for PATH: its `ssh` is the real one, with a configuration in which the hosts
    `rank0` and `rank1` are this server, and `closed` is a port where none is.
    """
    directory.mkdir(parents=True)
    for name in ("host", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / name], check=True
        )
    with socket.socket() as one, socket.socket() as other:
        ports = []
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
            ports.append(probe.getsockname()[1])
    path = f"{Path(shutil.which('podman') or '/usr/bin/podman').parent}:{os.environ['PATH']}"
    settings = " ".join(f'"{key}={value}"' for key, value in {"PATH": path, **env}.items())
    (directory / "sshd_config").write_text(
        f"Port {ports[0]}\nListenAddress 127.0.0.1\nHostKey {directory}/host\n"
        f"AuthorizedKeysFile {directory}/key.pub\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PasswordAuthentication no\nPermitRootLogin prohibit-password\nSetEnv {settings}\n",
        encoding="utf-8",
    )
    (directory / "ssh_config").write_text(
        f"Host rank0 rank1\n  Port {ports[0]}\nHost closed\n  Port {ports[1]}\n"
        f"Host *\n  HostName 127.0.0.1\n  User {getpass.getuser()}\n"
        f"  IdentityFile {directory}/key\n  IdentitiesOnly yes\n"
        f"  StrictHostKeyChecking no\n  UserKnownHostsFile {directory}/known\n",
        encoding="utf-8",
    )
    (directory / "bin").mkdir()
    ssh = directory / "bin" / "ssh"
    ssh.write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh")} -F {directory}/ssh_config "$@"\n', encoding="utf-8"
    )
    ssh.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd does not start without it
    with (directory / "log").open("w") as log:
        server = subprocess.Popen(
            [_SSHD, "-D", "-e", "-f", directory / "sshd_config"], stdout=log, stderr=log
        )
    try:
        end = time.monotonic() + 20
        while subprocess.run([ssh, "-o", "BatchMode=yes", "rank0", "true"],
                             capture_output=True).returncode:  # fmt: skip
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError((directory / "log").read_text(encoding="utf-8"))
            time.sleep(0.1)
        yield directory / "bin"
    finally:
        server.terminate()
        server.wait(10)

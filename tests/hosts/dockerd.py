"""A Docker daemon of a test's own, where this machine lets one run."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def missing() -> str:
    """Why no daemon can run here; "" if it may."""
    if os.geteuid() != 0:
        return "dockerd needs root"
    lacks = [name for name in ("dockerd", "docker", "containerd") if shutil.which(name) is None]
    return f"not installed: {', '.join(lacks)}" if lacks else ""


@contextmanager
def run_dockerd(directory: Path) -> Iterator[str | None]:
    """Run a daemon for the block; gives its DOCKER_HOST, None when it does not come up here."""
    directory.mkdir(parents=True, exist_ok=True)
    socket = directory / "s"
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(
            ["dockerd", "--data-root", str(directory / "root"), "--exec-root",
             str(directory / "exec"), "--pidfile", str(directory / "pid"), "-H", f"unix://{socket}",
             "--iptables=false", "--bridge=none"],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        end = time.monotonic() + 40
        up = False
        while not up and time.monotonic() < end and process.poll() is None:
            done = subprocess.run(["docker", "-H", f"unix://{socket}", "version"],
                                  capture_output=True)  # fmt: skip
            up = done.returncode == 0
            time.sleep(0.2)
        yield f"unix://{socket}" if up else None
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(directory, ignore_errors=True)

"""Run a command and see how long it takes and how much memory its whole process tree holds."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_INTERVAL = 0.05


@dataclass(frozen=True)
class Measured:
    """A finished command: wall and CPU seconds, peak resident bytes of its tree, its output."""

    wall: float
    cpu: float
    peak: int
    stdout: str
    stderr: str


def run(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Measured:
    """Run a command that must succeed.

    Memory is the sum of the resident pages of the process and all below it, read every 50 ms: pages
    that they share count several times, so the truth is below it.
    """
    before = os.times()
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watch = _Watch(process.pid)
    watch.start()
    stdout, stderr = process.communicate()
    wall = time.monotonic() - began
    watch.stop.set()
    watch.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit status {process.returncode}\n{stderr}")
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Measured(wall, cpu, watch.peak, stdout, stderr)


class _Watch(threading.Thread):
    """Adds up what a process and those below it hold. Asking after every process of the machine
    would cost a tenth of a core, which what is measured needs itself."""

    def __init__(self, process: int):
        super().__init__(daemon=True)
        self.stop = threading.Event()
        self.peak = 0
        self._process = process

    def run(self) -> None:
        while not self.stop.wait(_INTERVAL):
            self.peak = max(self.peak, _resident(self._process))


def _resident(process: int) -> int:
    """Return the resident bytes of a process and all below it; 0 when it has ended."""
    place = Path("/proc", str(process))
    try:
        # proc(5): resident pages are the second field.
        total = int((place / "statm").read_text().split()[1]) * _PAGE
        for thread in (place / "task").iterdir():
            total += sum(map(_resident, map(int, (thread / "children").read_text().split())))
    except OSError:  # it has ended
        return 0
    return total

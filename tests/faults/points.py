"""Runs of the command that are killed at a random point, or that run out of disk."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# `nox -s faults` asks for 100 of each.
POINTS = int(os.environ.get("SM121_CHAIN_FAULT_POINTS", "3"))
SEED = int(os.environ.get("SM121_CHAIN_FAULT_SEED", "4"))


@dataclass(frozen=True)
class Command:
    """A call of the program: its arguments, where, and with which environment beside the own."""

    args: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]

    def start(self, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
        """Start it; `before` runs in the new process."""
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", *self.args],
            cwd=self.cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT), **self.env},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=before,
        )

    def run(self, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(before)
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(self.args, process.returncode, out, err)


def kill_at(command: Command, chance: random.Random, full: float) -> str:
    """Start a run and kill -9 it, alone or with its whole process group, at a random point of
    `full` seconds; return what was done, "" when it had ended by itself."""
    after = chance.uniform(0, full)
    whole = chance.random() < 0.5
    process = command.start()
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        if whole:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()
    if process.returncode != -signal.SIGKILL:
        return ""
    return f"{'group' if whole else 'process'} after {after:.2f} of {full:.2f} s"


def killed(
    command: Callable[[int], Command],
    check: Callable[[int, subprocess.CompletedProcess[str]], None],
    torn: Callable[[int], None] = lambda number: None,
) -> None:
    """Kill POINTS runs, each followed by one to the end, which `check` is given with its number.

    `torn` is given the number of a run that was killed. `command` makes the call of a number, 0
    being the one that is measured. Prints each point with
    its seed, so that one can be told apart by `pytest -s`.
    """
    began = time.monotonic()
    check(0, command(0).run())
    full = time.monotonic() - began
    done = number = 0
    while done < POINTS:
        number += 1
        assert number < 4 * POINTS + 4, "runs end before they can be killed"
        what = kill_at(command(number), random.Random(f"{SEED}/{number}"), full)
        torn(number)
        again = command(number)
        began = time.monotonic()
        check(number, again.run())
        if what:
            done += 1
            print(f"seed {SEED}/{number}: {what}: then right", flush=True)
        # Where other work runs beside it, a run is longer now and shorter then.
        full = 0.8 * full + 0.2 * max(time.monotonic() - began, full / 2)


@contextlib.contextmanager
def small_disk(place: Path, kibibytes: int) -> Iterator[Path]:
    """A file system of its own, of a size; skips the test where nobody may mount one."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("not allowed to mount a small file system here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def one_clear_error(done: subprocess.CompletedProcess[str], status: int, *texts: str) -> None:
    """The one way in which an error may look."""
    assert done.returncode == status, done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    assert "next: " in done.stderr and "Traceback" not in done.stderr, done.stderr
    for text in texts:
        assert text in done.stderr, done.stderr

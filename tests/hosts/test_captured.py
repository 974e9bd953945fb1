"""`capture`: a command that hangs, floods, is absent, or leaves its pipes to somebody else."""

from __future__ import annotations

import sys
import time

import pytest

from pipeline.hosts import captured
from pipeline.hosts.captured import capture


def test_status_and_both_streams() -> None:
    code = "import sys; print('out'); print('\\xff', file=sys.stderr); sys.exit(3)"
    done = capture([sys.executable, "-c", code], {"A": "1", "PYTHONIOENCODING": "latin-1"}, 30)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "\ufffd\n")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_more_than_fits_in_memory(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "MOST_OUTPUT", 100_000)
    code = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
    done = capture([sys.executable, "-c", code], None, 30)
    assert done.returncode == captured.TOO_MUCH and done.stdout == ""
    assert done.stderr == "more than 100000 bytes of output"


def test_a_hang_and_a_grandchild_that_holds_the_pipes() -> None:
    began = time.monotonic()
    assert capture(["sleep", "60"], None, 0.1).returncode == captured.OUT_OF_TIME
    done = capture(["sh", "-c", "sleep 20 & echo here"], None, 30)
    assert done.returncode == 0 and time.monotonic() - began < 15


def test_a_program_that_is_none() -> None:
    assert capture(["/none/such"], None, 1).stderr == "not installed"
    done = capture(["/etc/passwd"], None, 1)
    assert done.returncode and done.stderr == "cannot be started: Permission denied"

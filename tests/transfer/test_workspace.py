"""Directories of downloads in flight: gone after use, swept after a kill, left alone while held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble
from pipeline.transfer.workspace import workspace

_HOLDER = """
import sys, time
from pathlib import Path
from pipeline.transfer.workspace import workspace
with workspace(Path(sys.argv[1])) as own:
    (own / "half").write_bytes(b"half a file")
    print(own, flush=True)
    time.sleep(60)
"""


def test_workspace_is_removed(tmp_path: Path) -> None:
    with workspace(tmp_path) as own:
        (own / "x").write_bytes(b"x")
        assert own.parent == tmp_path / "tmp"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_workspace_of_a_live_process_stays_and_of_a_killed_one_goes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        theirs = Path(holder.stdout.readline().strip())
        with workspace(tmp_path) as own:
            assert (theirs / "half").exists()
            assert own != theirs
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert theirs.exists()
    with workspace(tmp_path) as own:
        assert [p.name for p in own.parent.iterdir()] == [own.name]


def test_cache_that_cannot_be_made_is_outside_trouble(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    with pytest.raises(OutsideTrouble, match="cannot be written"), workspace(tmp_path / "cache"):
        pass

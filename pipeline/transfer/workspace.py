"""Directories for what is in flight, downloads and outputs, inside the cache's own file system.

Each belongs to one process, which holds a lock on it (flock, so the kernel gives it back however
the process ends, and process numbers play no part: containers may share a cache). Whoever opens a
new one first sweeps away those that nobody holds any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import OutsideTrouble


@contextlib.contextmanager
def workspace(cache: Path) -> Iterator[Path]:
    """A fresh directory `<cache>/tmp/<name>`, removed at the end; sweeps those of dead processes.

    Raises OutsideTrouble if the cache cannot be written.
    """
    parent = cache / "tmp"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with _locked(parent):
            _sweep(parent)
            own = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
            held = _lock(own)
    except OSError as error:
        raise OutsideTrouble(
            f"the cache {cache} cannot be written: {error}",
            hint="set SM121_CHAIN_CACHE to a directory that you may write to",
        ) from error
    try:
        yield own
    finally:
        shutil.rmtree(own, ignore_errors=True)
        os.close(held)


def sweep(cache: Path) -> None:
    """Remove the directories of dead processes, where the cache may be written."""
    with contextlib.suppress(OSError), _locked(cache / "tmp"):
        _sweep(cache / "tmp")


def _sweep(parent: Path) -> None:
    for stale in sorted(parent.iterdir()):
        with contextlib.suppress(OSError), _locked(stale, wait=False):
            shutil.rmtree(stale, ignore_errors=True)


def _lock(directory: Path, *, wait: bool = True) -> int:
    """Lock a directory and return the descriptor that holds the lock; OSError if it is held."""
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BaseException:
        os.close(held)
        raise
    return held


@contextlib.contextmanager
def _locked(directory: Path, *, wait: bool = True) -> Iterator[None]:
    held = _lock(directory, wait=wait)
    try:
        yield
    finally:
        os.close(held)

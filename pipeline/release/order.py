"""The steps of a release, one after another: what each came to is told at the end."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pipeline.errors import Refusal

STEPS = ("build", "audit", "push", "smoke", "tag", "verify")
DONE, FOUND, FAILED, NOT_REACHED = "done", "found", "failed", "not reached"
_T = TypeVar("_T")


class Order:
    """Runs the steps in their order and keeps what became of each."""

    def __init__(self, tell: Callable[[str], None]):
        self._tell = tell
        self._came: dict[str, tuple[str, float, str]] = {}

    def run(self, step: str, work: Callable[[], _T]) -> _T:
        """Run a step. What it raises is raised, and the step has failed."""
        assert step == STEPS[len(self._came)]
        self._tell(f"{step} …")
        began = time.monotonic()
        self._came[step] = (FAILED, 0.0, "")
        try:
            result = work()
        finally:
            self._came[step] = (FAILED, time.monotonic() - began, "")
        self._came[step] = (DONE, time.monotonic() - began, "")
        return result

    def found(self, step: str, what: str) -> None:
        """Say that a step was done by an earlier run, and what shows it."""
        self._came[step] = (FOUND, self._came[step][1], what)

    def summary(self) -> list[str]:
        """Return one line a step."""
        lines = []
        for step in STEPS:
            state, seconds, what = self._came.get(step, (NOT_REACHED, 0.0, ""))
            took = f"{seconds:7.1f} s" if step in self._came else ""
            lines.append(f"{step:<8}{state:<12}{took}  {what}".rstrip())
        return lines


def refuse_unless_good(step: str, status: int) -> None:
    """Raise Refusal when a verb ended with a finding; what it found is told by then."""
    if status:
        raise Refusal(f"{step} ended with findings: see above", hint=f"run it alone: {step} --help")


@contextmanager
def one_at_a_time(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a release's folder for the block; another run on this machine waits for it.

    The lock goes with the process, however that ends. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)

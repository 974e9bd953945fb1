"""Progress of steps on stderr: what runs, what is done, how long it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pipeline.graph import Plan, Step
from pipeline.steps.program import StepOutput


class StepProgress:
    """Counts steps and shows nothing."""

    def started(self, step: Step) -> None:
        """A step began to run."""

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        """A step's output is there."""

    def note(self, text: str) -> None:
        """Something to know has happened between steps."""


class _Lines(StepProgress):
    """A line for each step that ran, for logs and above a bar."""

    def __init__(self, console: Console, total: int, bar: Progress | None = None):
        self._console = console
        self._total = total
        self._done = 0
        self._cached = 0
        self._began: dict[str, float] = {}
        self._bar = bar
        self._task = bar.add_task("", total=total) if bar else None

    def started(self, step: Step) -> None:
        self._began[step.id] = time.monotonic()
        self._show()

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        self._done += 1
        began = self._began.pop(step.id, None)
        if cached or began is None:
            self._cached += 1
        else:
            seconds = time.monotonic() - began
            self._console.print(
                f"[{self._done}/{self._total}] {step.id}  {seconds:.1f} s", markup=False
            )
        self._show()

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)

    def close(self) -> None:
        """Say how much was not made again."""
        if self._cached:
            self._console.print(f"{self._cached} of {self._total} steps from the cache")

    def _show(self) -> None:
        if self._bar is not None and self._task is not None:
            running = ", ".join(sorted(self._began)) or "…"
            self._bar.update(self._task, completed=self._done, description=running)


@contextmanager
def steps_on(stream: TextIO, plan: Plan, *, quiet: bool = False) -> Iterator[StepProgress]:
    """Give the display that fits `stream`: none if quiet, a bar on a terminal, else lines."""
    if quiet:
        yield StepProgress()
        return
    console = Console(file=stream, highlight=False, soft_wrap=True)
    total = len(plan.steps)
    if not stream.isatty():  # FORCE_COLOR would draw bars into a log
        lines = _Lines(console, total)
        yield lines
        lines.close()
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    # rich would print stdout's lines through its own console: to the terminal, not to the file that
    # stdout is redirected to.
    redirect = sys.stdout.isatty()
    with Progress(*columns, console=console, transient=True, redirect_stdout=redirect) as bar:
        lines = _Lines(bar.console, total, bar)
        yield lines
        lines.close()

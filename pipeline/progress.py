"""Progress on stderr: a bar on a terminal, a plain line now and then elsewhere, or nothing."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_SECONDS = 5.0


def readable(size: float) -> str:
    """A number of bytes in decimal units, as download tools show it: `3.96 GB`."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"


class Progress:
    """How far a transfer is. This base class counts and shows nothing. Threads may share one.

    Use it as a context manager around the transfer.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.label = ""
        self.files = self.total_files = self.size = self.total_size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the terminal as it was."""

    def begin(self, label: str, files: int, size: int) -> None:
        """Announce what is to come: a number of files and of bytes (0: not known)."""
        with self._lock:
            self.label, self.total_files, self.total_size = label, files, size
            self._show()

    def moved(self, count: int) -> None:
        """Count bytes that came; negative when a transfer starts anew."""
        with self._lock:
            self.size += count
            self._show()

    def done(self, files: int = 1) -> None:
        """Count files that are complete."""
        with self._lock:
            self.files += files
            self._show()

    def _show(self) -> None:
        """Show the counters; called with the lock held."""


class PlainProgress(Progress):
    """A line every few seconds, and one at the end, for logs."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._next = 0.0
        self._last = (-1, -1)

    def _show(self) -> None:
        now, whole = time.monotonic(), (self.files, self.size)
        if (now < self._next and self.files < self.total_files) or whole == self._last:
            return
        self._next, self._last = now + _PLAIN_SECONDS, whole
        total = f" of {readable(self.total_size)}" if self.total_size else ""
        print(
            f"{self.label}: {self.files} of {self.total_files} files, {readable(self.size)}{total}",
            file=self._stream,
            flush=True,
        )


class BarProgress(Progress):
    """A bar with bytes, files and rate, for a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        from rich import progress as rich_progress  # much to import where nothing is drawn
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self._bytes = rich_progress.Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TextColumn("{task.fields[files]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._bytes.add_task("", total=None, files="", start=False)

    def __enter__(self) -> Self:
        self._bytes.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bytes.stop()

    def begin(self, label: str, files: int, size: int) -> None:
        super().begin(label, files, size)
        self._bytes.start_task(self._task)

    def _show(self) -> None:
        self._bytes.update(
            self._task,
            description=self.label,
            total=self.total_size or None,
            completed=self.size,
            files=f"{self.files}/{self.total_files} files",
        )


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """The progress display that fits `stream`: none if `quiet`, a bar on a terminal, else lines."""
    if quiet:
        return Progress()
    # Not what rich calls a terminal: FORCE_COLOR would draw bars into a log.
    if not stream.isatty():
        return PlainProgress(stream)
    from rich.console import Console

    return BarProgress(Console(file=stream))

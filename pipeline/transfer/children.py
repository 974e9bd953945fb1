"""Child processes that end together: by Ctrl-C, by an error, or when this program is killed."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence


class Stopped(Exception):
    """Raised in a worker thread when the whole transfer has been stopped; never seen by a user."""


class Children:
    """The processes that are running. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self.stopped = False

    @contextlib.contextmanager
    def run(
        self, command: Sequence[str], *, env: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a process with its stdout and stderr in one pipe: a file might not fit the disk.

        It is a session of its own, so that Ctrl-C reaches only this program, which stops it. When
        this program is killed, the closed pipe ends the process at its next line of progress.
        The process has ended when the context is left. Raises Stopped once `stop` was called.
        """
        with self._lock:
            self.check()
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            yield process
            process.wait()
        finally:
            _end(process)
            with self._lock:
                self._running.discard(process)
        self.check()  # one that was stopped has nothing to say

    def check(self) -> None:
        """Raise Stopped if the transfer has been stopped."""
        if self.stopped:
            raise Stopped

    def stop(self) -> None:
        """End every running process and start no more."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                process.terminate()


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout:
        process.stdout.close()

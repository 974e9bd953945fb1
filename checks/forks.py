"""Calls in processes of their own, which may do what they like: loop, wait, eat memory."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
from collections.abc import Callable
from pathlib import Path

from checks.mutants import CannotChange

IMPOSSIBLE = 4  # status of a call that raised CannotChange
STUCK = -1
_MEMORY, _FILE = 4 << 30, 1 << 30  # bytes: what a call that never ends may take
_QUIET = 10  # seconds in which nothing of a call runs, so that it waits for ever


def in_fork(work: Callable[[], int], seconds: float, output: Path) -> int:
    """Call in a process of its own; its status, or STUCK where it took more processor time, or
    waits for what never comes."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(log, number)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
            status = work()
        except CannotChange:
            status = IMPOSSIBLE
        finally:
            os._exit(status)
    with os.fdopen(os.pidfd_open(pid)) as watched:
        ended, before, quiet = False, -1, 0
        while not ended and quiet < _QUIET:
            ended = bool(select.select([watched], [], [], 1)[0])
            used = _used(pid)
            quiet = quiet + 1 if used == before and used >= 0 else 0
            before = used
    with contextlib.suppress(ProcessLookupError):  # what a test started ends with it
        os.killpg(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if ended and status != -signal.SIGXCPU else STUCK


def _used(session: int) -> int:
    """Processor time, in ticks, of a session's processes; -2 where one could run, or is stopped.

    See proc_pid_stat(5): state is the third field, the session the sixth, times from the 14th on.
    """
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                if fields[0] in "RDTt":
                    return -2
                total += int(fields[11]) + int(fields[12])
    return total

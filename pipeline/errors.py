"""Every error class of the program, each with the exit status that it ends the program with.

An error carries what a user needs: one line that says what is wrong (`message`), the next step to
take (`hint`), and lines of detail (`details`), which are always printed: they name the things that
the message counts. A traceback is for faults of this program only.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar


class ChainError(Exception):
    """Base of all errors that a user may see. Never raised itself."""

    exit_status: ClassVar[int] = 3
    usual_hint: ClassVar[str] = "see to it, then run it again: what is done is kept"

    def __init__(self, message: str, *, hint: str | None = None, details: Iterable[str] = ()):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: Sequence[str] = tuple(details)


class Refusal(ChainError):
    """Exit status 1: what was asked for is refused: drift, a patch, other bytes than locked."""

    exit_status = 1
    usual_hint = "find out what differs from the lock or the stage file; nothing was made of it"


class UsageError(ChainError):
    """Exit status 2: the call is wrong."""

    exit_status = 2
    usual_hint = "`--help` after the verb tells what it takes"


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong in one of our files: `where` is a path into it (`stages[2].tag`)."""

    where: str
    problem: str

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" if self.where else self.problem


class FaultyFile(UsageError):
    """Exit status 2: files of ours (lock, stage, patch) do not hold together. Holds every fault."""

    def __init__(self, file: str, faults: Iterable[Fault], *, hint: str | None = None):
        self.file = file
        self.faults = tuple(faults)
        count = len(self.faults)
        super().__init__(
            f"{file}: {count} fault{'s' if count != 1 else ''}",
            hint=hint or "mend these places; all faults are listed",
            details=[str(fault) for fault in self.faults],
        )


class OutsideTrouble(ChainError):
    """Exit status 3: network, registry, engine or disk did not do their part."""

    exit_status = 3


class NoEngine(OutsideTrouble):
    """No engine takes us in: nothing was begun, and nothing that stands is touched."""


_ROOM = "make room, then run it again: what is done is kept"
_LEAVE = "see who may write there, or name another place (--out, SM121_CHAIN_CACHE, TMPDIR)"
_NEXT = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "raise the limit of a file's size (`ulimit -f`)",
    errno.EACCES: _LEAVE,
    errno.EPERM: _LEAVE,
    errno.EROFS: _LEAVE,
    errno.EEXIST: _LEAVE,
    errno.ENOTDIR: _LEAVE,
    errno.EMFILE: "raise the limit of open files (`ulimit -n`), or take fewer --jobs",
    errno.ENFILE: "raise the limit of open files (`ulimit -n`), or take fewer --jobs",
    errno.EAGAIN: "raise the limit of processes (`ulimit -u`), or take fewer --jobs",
    errno.ENOMEM: "take fewer --jobs, or a machine with more memory",
}


# What a library that is loaded, or a thread that is started, says for want of memory.
_SCARCE = ("start new thread", "failed to map segment", "cannot allocate memory")


def is_system_trouble(error: BaseException) -> bool:
    """Is an error the machine's doing, and not a fault of this program?"""
    if isinstance(error, RuntimeError | ImportError):
        return any(text in str(error) for text in _SCARCE)
    return isinstance(error, OSError | MemoryError)


def system_trouble(
    error: OSError | MemoryError | RuntimeError | ImportError,
    doing: str = "",
    *,
    hint: str | None = None,
) -> OutsideTrouble:
    """What the operating system refused, as an error for people; `doing` says during what."""
    number = error.errno if isinstance(error, OSError) else errno.ENOMEM
    text = (error.strerror if isinstance(error, OSError) else "") or str(error) or "out of memory"
    if isinstance(error, ImportError):
        text = f"out of memory: {text}"
    place = error.filename if isinstance(error, OSError) else None
    where = str(place) if place is not None and str(place) not in doing else ""
    parts = (doing, where, text)
    return OutsideTrouble(
        ": ".join(part for part in parts if part),
        hint=hint or _NEXT.get(number or 0),
    )

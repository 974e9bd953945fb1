"""What goes wrong on an engine that is not in this process, as errors for people."""

from __future__ import annotations

import json

from pipeline.errors import ChainError, OutsideTrouble
from pipeline.failures import Failure
from pipeline.steps.contained import FAILED

_PRUNE = "make room on the engine: `dagger core engine local-cache prune`; what is done is kept"
_AGAIN = "see that the engine runs and what its log says, then run it again: what is done is kept"
_KILLED = 137  # 128 + SIGKILL
_ENDS = "engine is shutting down"  # what one says between SIGTERM and its end


class Gone(OutsideTrouble):
    """The engine, or the way to it, is gone: no other step can end well either."""


def exec_trouble(step: str, status: int, stdout: str, stderr: str) -> ChainError:
    """Return the error of a step whose program ended with a status other than 0.

    A step that failed in its own way says so in its last line (see `pipeline.steps.contained`).
    """
    if status == FAILED:
        try:
            document = json.loads(stdout.rstrip("\n").rpartition("\n")[2])
            return Failure.from_json(document["failure"]).raised()
        except (ValueError, KeyError, TypeError):
            pass
    if full(stderr):
        return _full()
    if status == _KILLED:
        return OutsideTrouble(
            f"{step}: it was killed on the engine",
            hint="it may have run out of memory there; try --jobs 1",
        )
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = f": {lines[-1].strip()}" if lines else ""
    return OutsideTrouble(f"{step}: it ended with status {status} on the engine{said}", hint=_AGAIN)


def wanted(status: int, stdout: str) -> tuple[str, ...]:
    """Return the digests of files that a step wants to be run again with, () for none."""
    if status != FAILED:
        return ()
    try:
        document = json.loads(stdout.rstrip("\n").rpartition("\n")[2])
        return tuple(document["wanted"])
    except (ValueError, KeyError, TypeError):
        return ()


def engine_trouble(message: str, step: str = "") -> ChainError:
    """Return the error for what the engine, or the way to it, answered to a request."""
    if full(message):
        return _full()
    if _ENDS in message:
        return lost("it shuts down")
    text = " ".join(message.split()) or "no reason was given"
    where = f"{step}: " if step else ""
    return OutsideTrouble(f"{where}the Dagger engine failed: {text}", hint=_AGAIN)


def lost(words: str = "") -> Gone:
    """Return the error for an engine that is gone in the middle of the work."""
    first, *_ = words.splitlines() or [""]
    said = f": {first}" if first else ""
    return Gone(f"the connection to the Dagger engine was lost{said}", hint=_AGAIN)


def full(text: str) -> bool:
    """Whether a message tells of a full disk (ENOSPC)."""
    return "no space left on device" in text.lower()


def _full() -> OutsideTrouble:
    return OutsideTrouble("the disk of the Dagger engine is full", hint=_PRUNE)

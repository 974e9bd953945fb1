"""What this machine can do: which engines a build could run on, and why not on the others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.engines.reach import RUNTIMES, Engine, find_engine, named
from pipeline.engines.session import open_session
from pipeline.errors import ChainError
from pipeline.progress import readable

# The wheelhouse and the layers of a whole build.
_ROOM = 10_000_000_000
# Programs beside Python that verbs call, and what for.
_TOOLS = (
    ("apt-get", "downloads the .debs of the lock; `--debian-mirror URL` does without"),
    ("ssh", "reaches engines and container runtimes on other hosts"),
)
_RUNTIME_USE = "`load` takes images there, and Dagger starts an engine in it"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: usable or not, what was found, and what to do about it."""

    subject: str
    usable: bool
    found: str
    fix: str = ""


def engines(cache: Path, environment: Mapping[str, str], *, connect: bool = True) -> list[Check]:
    """Look at every engine that a build could take; the first is what `--engine auto` takes.

    With `connect` a Dagger engine that answers is asked for a session, which shows its version.
    """
    checks = [_local(cache), _dagger(environment, connect)]
    return checks[::-1] if named(environment) else checks


def tools() -> Iterator[Check]:
    """Look for the programs that some verbs call."""
    for name, use in _TOOLS:
        place = shutil.which(name)
        yield Check(name, place is not None, place or f"not here: {use}")
    for name in RUNTIMES:
        place = shutil.which(name)
        yield Check(name, place is not None, place or f"not here: {_RUNTIME_USE}")


def _local(cache: Path) -> Check:
    there = next(path for path in (cache, *cache.absolute().parents) if path.exists())
    free = shutil.disk_usage(there).free
    if not os.access(there, os.W_OK):
        fix = "set SM121_CHAIN_CACHE to a directory that you may write to"
        return Check("engine local", False, f"{there} cannot be written", fix)
    found = f"cache {cache}, {readable(free)} free"
    if free < _ROOM and not (cache / "files").exists():
        fix = "make room, or set SM121_CHAIN_CACHE to a directory on a larger disk"
        return Check("engine local", False, f"{found}; a build wants {readable(_ROOM)}", fix)
    return Check("engine local", True, found)


def _dagger(environment: Mapping[str, str], connect: bool) -> Check:
    subject = "engine dagger"
    try:
        engine = find_engine(environment)
        if connect and engine.runs:
            _connect(engine)
    except ChainError as error:
        return Check(subject, False, error.message, error.hint or "")
    cli = f", CLI {engine.cli}" if engine.cli else ""
    waits = "" if engine.runs else "; not started yet, so not asked"
    return Check(subject, True, f"{engine.where}{cli}{waits}")


def _connect(engine: Engine) -> None:
    with open_session(engine, None):
        """It took us in, so its version and the CLI's go together."""

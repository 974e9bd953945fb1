"""What the cache holds and nobody has used for a while: outputs, toolboxes, copies of modules.

Each version of the program, and each edit of a patch, leaves some behind. A run that wants one
again makes it again. Locked files are never removed here: they may be nowhere else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from pipeline.engines.work import remove
from pipeline.steps.program import RESULT
from pipeline.transfer.workspace import sweep

STEPS, TOOLBOX, MODULES = "steps", "toolbox", "modules"
_UNUSED_SECONDS = 14 * 24 * 3600
_MARK = ".used"


def use(place: Path) -> None:
    """Note that an entry of `TOOLBOX` or `MODULES` is in use now.

    Beside it: an engine that has been sent a file sends for it again when its own time changes.
    """
    with contextlib.suppress(OSError):  # a read-only cache is not pruned either
        _mark(place).touch()


def prune(cache: Path) -> None:
    """Remove what no run has used for two weeks, and what is left of runs that were killed."""
    sweep(cache)
    limit = time.time() - _UNUSED_SECONDS
    for place, used in _entries(cache):
        with contextlib.suppress(OSError):  # another run may be at it, or the cache read-only
            if used.stat().st_mtime < limit:
                remove(place)
                _mark(place).unlink(missing_ok=True)


def _entries(cache: Path) -> Iterator[tuple[Path, Path]]:
    """Yield every entry, and the file whose time says when it was used last."""
    for place in _listed(cache / STEPS):
        yield place, place / RESULT
    for kind in (TOOLBOX, MODULES):
        for place in _listed(cache / kind):
            if place.suffix != _MARK:
                yield place, _mark(place) if _mark(place).exists() else place


def _listed(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _mark(place: Path) -> Path:
    return place.with_name(place.name + _MARK)

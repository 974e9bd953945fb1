"""Is there room for what a build will write? Asked before it starts."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import OutsideTrouble
from pipeline.graph import Step
from pipeline.progress import readable

# A layer has about the size of its wheels (measured: 3.8 GB of layers for 4.0 GB of wheels).
_MARGIN = 64_000_000


def check_space(steps: Iterable[Step], cache: Path) -> None:
    """Raise OutsideTrouble if the disk of `cache` has no room for what `steps` will write."""
    needed = sum(file.size or 0 for step in steps for file in step.files if _writes(step))
    needed += _MARGIN if needed else 0
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if free < needed:
        raise OutsideTrouble(
            f"not enough room in {cache}: about {readable(needed)} are needed for layers,"
            f" {readable(free)} are free",
            hint="make room, or set SM121_CHAIN_CACHE to a directory on a larger disk",
        )


def _writes(step: Step) -> bool:
    return step.program.endswith("-layer")

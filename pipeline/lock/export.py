"""One selection as a lock of its own that uv and pip take: PEP 751, no markers, no groups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.lock.compose import Entry
from pipeline.lock.entries import WHEELHOUSE
from pipeline.lock.model import Lock, LockedWheel
from pipeline.lock.render import render_entries
from pipeline.wheels.house import Wheelhouse


def export(lock: Lock, base: str, groups: Sequence[str], stage: str) -> str:
    """The text of `pylock.<stage>.toml`.

    Paths are `wheelhouse/<file name>`, which PEP 751 reads from the lock's own directory.
    """
    chosen = lock.base(base)
    major, minor = chosen.target.python_version
    environment = f"sys_platform == 'linux' and platform_machine == '{chosen.target.machine}'"
    head = "\n".join(
        [
            f"# {Path(lock.file).name}: stage {stage} on base {base}, by `lock --export`",
            'lock-version = "1.0"',
            'created-by = "sm121-chain"',
            f'requires-python = "=={major}.{minor}.*"',
            f'environments = ["{environment}"]',
        ]
    )
    entries = [Entry(w.name, w.version, "", (w,)) for w in lock.select(base, groups)]
    return "\n\n".join([head, *render_entries(entries)]) + "\n"


def link_wheels(wheels: Sequence[LockedWheel], house: Wheelhouse, directory: Path) -> int:
    """Put the wheels of an index below `directory` where their paths lead; return how many lack.

    Raises:
        OutsideTrouble: the directory cannot be written.
    """
    indexed = [wheel for wheel in wheels if wheel.url is None]
    here = [wheel for wheel in indexed if house.has(wheel.sha256, wheel.size)]
    if here:
        house.link_named(directory / WHEELHOUSE, here)
    return len(indexed) - len(here)

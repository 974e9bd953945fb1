"""The lock: `pins.toml` of the default line, `pins.<line>.toml` of another.

Valid PEP 751 content with one table of ours, `[tool.sm121-chain]`. The reader is strict: every
fault of the file is reported at once, each with its path, and nothing faulty is ever selected from.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import Fault, FaultyFile
from pipeline.lock.model import (
    Base,
    Known,
    Lock,
    LockedDeb,
    LockedWheel,
    Override,
    Removal,
    Zstd,
)
from pipeline.lock.table import Table, read_toml
from pipeline.lock.tool import read_tool

__all__ = [
    "Base",
    "Known",
    "Lock",
    "LockedDeb",
    "LockedWheel",
    "Override",
    "Removal",
    "Zstd",
    "load_ledger",
    "load_lock",
    "lock_path",
]

TOOL = "sm121-chain"


def lock_path(root: Path, line: str = "") -> Path:
    """The lock file of a line below the project's root; "" is the default line."""
    return root / (f"pins.{line}.toml" if line else "pins.toml")


def load_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        UsageError: there is no such file.
        FaultyFile: the file has faults; the error holds all of them.
        OutsideTrouble: the file cannot be read.
    """
    document = read_toml(path, missing="run this in a checkout, or name a lock of it with --line")
    faults: list[Fault] = []
    root = Table(document, "", faults)
    ours = root.table("tool", required=False).table(TOOL)
    groups = root.texts("dependency-groups", required=False)
    # without the table of ours nothing can be judged, so nothing else is said then
    tool = read_tool(ours, groups) if ours.values else None
    if tool is None or not tool.bases:
        raise FaultyFile(str(path), faults or [Fault(f"tool.{TOOL}.bases", "no base")])
    from pipeline.lock.entries import read_entries  # a ledger is read without it

    pylock = read_entries(root, {name: base.target for name, base in tool.bases.items()})
    root.close()
    if faults or pylock is None:
        raise FaultyFile(str(path), dict.fromkeys(faults))
    return Lock(
        str(path),
        pylock,
        tool.epoch,
        tool.exclude_newer,
        tool.requirements,
        tool.zstd,
        tool.bases,
        tool.overrides,
        tool.removals,
        tool.known,
        tool.artifacts,
    )


def load_ledger(path: Path) -> tuple[Override, ...]:
    """Read the overrides of a lock file, and nothing of its entries.

    Raises UsageError, FaultyFile and OutsideTrouble as `load_lock` does.
    """
    document = read_toml(path, missing="run this in a checkout, or name a lock of it with --line")
    faults: list[Fault] = []
    root = Table(document, "", faults)
    ours = root.table("tool", required=False).table(TOOL)
    groups = root.texts("dependency-groups", required=False)
    overrides = read_tool(ours, groups).overrides if ours.values else ()
    if faults:
        raise FaultyFile(str(path), dict.fromkeys(faults))
    return overrides

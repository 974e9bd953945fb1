"""Where a project's files are: the lock of a line, its stages, the patches, the built images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pipeline.chain import Chain
from pipeline.lock.model import Lock
from pipeline.patching.loading import load_patches
from pipeline.patching.model import Patch
from pipeline.pins import load_lock, lock_path
from pipeline.stage_files import load_chain


@dataclass(frozen=True)
class Project:
    """A line of the project in `root`. Files are read when they are asked for, once.

    The default line is `pins.toml` with `stages/`; line L is `pins.L.toml` with `stages/L/`.
    """

    root: Path
    line: str = ""

    def is_edited_since(self, made: Path) -> bool:
        """Whether some file of the project looks newer than one that was made of it.

        A guess, by their times: good enough to get ready for work, and for nothing else.
        """
        files = [lock_path(self.root, self.line)]
        for directory in (self.root / "stages" / self.line, self.root / "patches"):
            files += [directory, *directory.glob("*.toml")]
        try:
            then = made.stat().st_mtime_ns
            return any(file.stat().st_mtime_ns > then for file in files)
        except OSError:
            return True

    @cached_property
    def lock(self) -> Lock:
        """The lock. Raises UsageError or FaultyFile."""
        return load_lock(lock_path(self.root, self.line))

    @cached_property
    def chain(self) -> Chain:
        """The stages. Raises UsageError or FaultyFile."""
        return load_chain(self.root / "stages" / self.line)

    @cached_property
    def patches(self) -> dict[str, Patch]:
        """All patches by name. Raises FaultyFile."""
        return load_patches(self.root / "patches")

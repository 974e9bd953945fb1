"""How a direction of drift is shown: never by a colour alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.drift.changes import ADDED, BUILD, DOWN, FILES, MOVED, ORIGIN, REMOVED, RENAMED, UP


class Direction(NamedTuple):
    """A sign, a word, and a colour of the terminal."""

    sign: str
    word: str
    style: str


SHOWN: Mapping[str, Direction] = {
    DOWN: Direction("▼", "down", "bold red"),
    UP: Direction("▲", "up", "bold blue"),
    MOVED: Direction("◆", "moved", "magenta"),
    BUILD: Direction("≠", "other build", "magenta"),
    RENAMED: Direction("↷", "renamed", "cyan"),
    REMOVED: Direction("−", "removed", "yellow"),
    ADDED: Direction("+", "added", "green"),
    ORIGIN: Direction("⌂", "other origin", "magenta"),
    FILES: Direction("≈", "other files", "yellow"),
}

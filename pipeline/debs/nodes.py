"""What a part of the system wants to be in the layer beside the packages' own files."""

from __future__ import annotations

from typing import NamedTuple


class Node(NamedTuple):
    """A file with `data`, a link to `link`, or (neither) a directory, at `path`."""

    path: str
    data: bytes | None = None
    mode: int = 0o644
    link: str = ""

    @classmethod
    def file(cls, path: str, data: bytes, mode: int = 0o644) -> Node:
        """Return a regular file."""
        return cls(path, data, mode)

    @classmethod
    def symlink(cls, path: str, target: str) -> Node:
        """Return a symbolic link."""
        return cls(path, None, 0o777, target)

    @classmethod
    def directory(cls, path: str, mode: int = 0o755) -> Node:
        """Return a directory."""
        return cls(path, None, mode)

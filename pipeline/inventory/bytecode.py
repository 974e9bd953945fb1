"""Compiled Python files: whose they are, and whether the interpreter would believe them.

Formats: PEP 3147 (`__pycache__`), PEP 552 (the header: magic number, flags, then mtime and size of
the source, or a hash of it). The interpreter compares with `!=` only: older or newer is the same.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from pipeline.oci.index import Entry
from pipeline.oci.tree import Located

CACHE = "/__pycache__/"
SUFFIX = ".pyc"
_HEADER = 16
_HASHED, _CHECKED = 1, 2
_32_BITS = 0xFFFFFFFF


class Header(NamedTuple):
    """The header of a compiled file. `digest` is the source's hash, b"" for one with a time."""

    magic: int
    mtime: int
    size: int
    digest: bytes
    checked: bool

    def believes(self, source: Entry) -> bool:
        """Whether the interpreter takes the file for compiled from this source, by time and size.

        Of one with a hash the answer is True: it takes the content to tell.
        """
        if self.digest:
            return True
        return (self.mtime, self.size) == (source.mtime & _32_BITS, source.size & _32_BITS)


def parse_header(entry: Entry) -> Header | None:
    """Return the header of a compiled file, as the layer index shows it; None when it has none."""
    data = bytes.fromhex(entry.start)[:_HEADER]
    if len(data) < _HEADER or data[2:4] != b"\r\n":
        return None
    magic, flags, first, second = (
        int.from_bytes(data[at : at + 4], "little") for at in range(0, _HEADER, 4)
    )
    if flags & _HASHED:
        return Header(magic, 0, 0, data[8:], bool(flags & _CHECKED))
    return Header(magic, first, second, b"", False)


def is_compiled(node: Located) -> bool:
    """Whether this is a compiled file, by its name."""
    return node.entry.path.endswith(SUFFIX) and node.entry.has_content


def source_of(path: str) -> str:
    """Return the source of a compiled file: beside it, or beside its `__pycache__`."""
    directory, cached, name = path.rpartition(CACHE)
    if cached:
        return f"{directory}/{name.split('.', 1)[0]}.py"
    return posixpath.splitext(path)[0] + ".py"

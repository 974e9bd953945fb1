"""The layer index: what a layer holds, written in the pass that writes or reads the layer.

Indexes, not tars, feed merging, RECORD checks, audit and drift: a layer is decompressed once ever.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, groupby, repeat
from typing import Any, NamedTuple

FILE = "file"
DIRECTORY = "dir"
SYMLINK = "symlink"
HARDLINK = "hardlink"
WHITEOUT = "whiteout"
OPAQUE = "opaque"

MEDIA_TYPE_TAR = "application/vnd.oci.image.layer.v1.tar"
MEDIA_TYPE_GZIP = MEDIA_TYPE_TAR + "+gzip"
MEDIA_TYPE_ZSTD = MEDIA_TYPE_TAR + "+zstd"

_FORMAT = 3
START = 20  # bytes that `Entry.start` shows: a whole ELF identification with its machine


class Entry(NamedTuple):
    """One entry of a layer.

    `path` has neither leading nor trailing slash. `type` is one of this module's constants, or
    "char", "block", "fifo". A whiteout's path is the path that it removes, an opaque marker's the
    directory that it empties (image-spec, layer.md "Whiteouts"). `sha256` is hex, "" for what has
    no content; a hard link carries size, sha256 and offset of the file in the same layer that it
    names. `offset` is where the data starts in the uncompressed tar, -1 without data. `start` are
    the first bytes, in hex, of a file that is no text (see `binary_start`); `mtime` is in seconds
    since 1970, of files only.
    """

    path: str
    type: str
    mode: int
    size: int = 0
    sha256: str = ""
    link: str = ""
    offset: int = -1
    start: str = ""
    mtime: int = 0

    @property
    def has_content(self) -> bool:
        """Whether this is a regular file, by whatever name."""
        return self.type in (FILE, HARDLINK)


# Past the keyword arguments of a named tuple: there are 50,000 entries to be made at every start.
make_entry = partial(tuple.__new__, Entry)


def binary_start(data: bytes) -> str:
    """Return the first START bytes of a file in hex, "" when there is no NUL among them.

    So what a binary is can be asked of the index: its header is not read from the layer again.
    """
    start = data[:START]
    return start.hex() if b"\0" in start else ""


@dataclass(frozen=True)
class LayerIndex:
    """What a layer blob is and holds.

    `digest` is of the compressed blob ("sha256:<hex>"), `size` its bytes, `diff_id` of the tar.
    `frames` are the compressed sizes of independent zstd frames that each hold `frame_size` bytes
    of tar (the last one fewer); empty for blobs of other makers, which allow no random access.
    """

    digest: str
    diff_id: str
    size: int
    media_type: str
    entries: tuple[Entry, ...]
    frame_size: int = 0
    frames: tuple[int, ...] = ()

    @cached_property
    def files(self) -> Mapping[str, Entry]:
        """Files by path; of a path that the layer holds twice, the last one counts."""
        return {entry.path: entry for entry in self.entries if entry.type in (FILE, HARDLINK)}

    def to_bytes(self) -> bytes:
        """Serialise as JSON: one document, equal bytes for equal indexes.

        Entries stand column by column: that is read faster than row by row, and equal values are
        one object then. Columns of few values are runs of [value, count]; of rare ones, only the
        rows that have any are named.
        """
        entries = self.entries
        document = {
            "format": _FORMAT,
            "digest": self.digest,
            "diff_id": self.diff_id,
            "size": self.size,
            "media_type": self.media_type,
            "frame_size": self.frame_size,
            "frames": self.frames,
            "paths": [entry.path for entry in entries],
            "types": _runs(entry.type for entry in entries),
            "modes": _runs(entry.mode for entry in entries),
            "sizes": [entry.size for entry in entries],
            "sha256": [entry.sha256 for entry in entries],
            "links": _rare(entry.link for entry in entries),
            "offsets": [entry.offset for entry in entries],
            "starts": _rare(entry.start for entry in entries),
            "mtimes": _runs(entry.mtime for entry in entries),
        }
        return json.dumps(document, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_bytes(cls, data: bytes) -> LayerIndex:
        """Read what `to_bytes` wrote. Raises ValueError for anything else."""
        document: dict[str, Any] = json.loads(data)
        if document.get("format") != _FORMAT:
            raise ValueError(f"layer index has format {document.get('format')!r}, not {_FORMAT}")
        paths = document["paths"]
        rows = zip(
            paths,
            _unrun(document["types"]),
            _unrun(document["modes"]),
            document["sizes"],
            document["sha256"],
            _every(document["links"], len(paths)),
            document["offsets"],
            _every(document["starts"], len(paths)),
            _unrun(document["mtimes"]),
            strict=True,
        )
        return cls(
            digest=document["digest"],
            diff_id=document["diff_id"],
            size=document["size"],
            media_type=document["media_type"],
            entries=tuple(map(make_entry, rows)),
            frame_size=document["frame_size"],
            frames=tuple(document["frames"]),
        )


def _runs(values: Iterable[Any]) -> list[tuple[Any, int]]:
    return [(value, sum(1 for _ in same)) for value, same in groupby(values)]


def _unrun(runs: Iterable[tuple[Any, int]]) -> Iterator[Any]:
    return chain.from_iterable(repeat(value, count) for value, count in runs)


def _rare(values: Iterable[str]) -> list[tuple[int, str]]:
    return [(row, value) for row, value in enumerate(values) if value]


def _every(rare: Iterable[tuple[int, str]], count: int) -> Sequence[str]:
    values = [""] * count
    for row, value in rare:
        values[row] = value
    return values

"""What every plan and audit reads of an image, beside the layer that holds it: its metadata.

Some 400 small files of an image lie in 100 frames of its layers, 4 MiB each, which would be read
and decompressed for every look at the inventory. They are kept by content; a reader that finds
nothing here, or something else, reads the layer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

import zstandard

from pipeline.oci.index import Entry, LayerIndex
from pipeline.steps.program import StepOutput

SMALL = "small.zst"
_LEVEL = 3
_LARGEST = 4 * 1024 * 1024  # bytes of one file


def is_small(path: str) -> bool:
    """Whether a file is one that is kept, by its path: metadata, and what adds to search paths."""
    return ".dist-info/" in path or path.endswith(".pth")


class SmallFiles:
    """Collects contents while a layer is written."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def take(self, path: str, data: bytes) -> None:
        """Keep the content of a file of the layer, if it is one of these."""
        if is_small(path) and len(data) <= _LARGEST:
            self._contents[path] = data

    def write(self, index: LayerIndex, out: Path) -> None:
        """Write them into the output of the layer's step; nothing, where there are none."""
        contents = {index.files[path].sha256: data for path, data in self._contents.items()}
        if contents:
            ordered = sorted(contents.items())
            table = json.dumps([(sha256, len(data)) for sha256, data in ordered])
            whole = b"\n".join((table.encode("ascii"), b"".join(data for _, data in ordered)))
            packed = zstandard.ZstdCompressor(level=_LEVEL).compress(whole)
            (out / SMALL).write_bytes(packed)


def small_files(output: StepOutput, entries: Collection[Entry]) -> dict[str, bytes]:
    """Return contents by path of those entries of a step's layer that are kept beside it."""
    wanted = [entry for entry in entries if is_small(entry.path)]
    if SMALL not in output.files or not wanted:
        return {}
    whole = zstandard.ZstdDecompressor().decompress((output.directory / SMALL).read_bytes())
    table, _, data = whole.partition(b"\n")
    kept: dict[str, bytes] = {}
    at = 0
    for sha256, size in json.loads(table):
        kept[sha256] = data[at : at + size]
        at += size
    return {
        entry.path: kept[entry.sha256]
        for entry in wanted
        if entry.sha256 in kept and hashlib.sha256(kept[entry.sha256]).hexdigest() == entry.sha256
    }

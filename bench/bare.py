"""The bare loop that a build is held against: inflate, hash twice and compress the same wheels.

Nothing else is done with the bytes: no paths, no tar, no RECORD, no output. One process a core.
"""

from __future__ import annotations

import hashlib
import time
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import zstandard

_CHUNK = 4 * 1024 * 1024


def _one(path: Path, level: int) -> int:
    record, tar = hashlib.sha256(), hashlib.sha256()
    compressor = zstandard.ZstdCompressor(level=level)
    total = 0
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        pending = bytearray()
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            skip = file.read(4)
            file.seek(int.from_bytes(skip[:2], "little") + int.from_bytes(skip[2:], "little"), 1)
            data = file.read(info.compress_size)
            if info.compress_type == zipfile.ZIP_DEFLATED:
                data = zlib.decompress(data, -zlib.MAX_WBITS)
            record.update(data)
            pending += data
            total += len(data)
            while len(pending) >= _CHUNK:
                piece = bytes(pending[:_CHUNK])
                del pending[:_CHUNK]
                tar.update(piece)
                compressor.compress(piece)
        tar.update(pending)
        compressor.compress(bytes(pending))
    return total


def bare_loop(wheels: Sequence[Path], *, level: int, processes: int) -> tuple[float, int]:
    """Return wall seconds and inflated bytes for all wheels, the largest first."""
    ordered = sorted(wheels, key=lambda path: -path.stat().st_size)
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(_ready, range(processes)))
        began = time.monotonic()
        total = sum(pool.map(_one, ordered, [level] * len(ordered)))
        return time.monotonic() - began, total


def _ready(number: int) -> int:
    time.sleep(0.2)  # so that every process starts before the clock does
    return number

"""What is known of a layer, kept by the layer's digest: it is found out once ever.

An entry is the sha256 of what follows, in hex, a line end, and the data. One that is not what its
first line says is never used; where nothing can be kept, it is found out again.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path


def keep(cache: Path | None, digest: str, data: bytes) -> None:
    """Keep data under a digest. A cache that takes nothing is no error."""
    if cache is None:
        return
    with suppress(OSError):
        _write(_path(cache, digest), data)


def kept(cache: Path | None, digest: str) -> bytes | None:
    """Return what is kept under a digest, None without it."""
    if cache is None:
        return None
    try:
        first, _, data = _path(cache, digest).read_bytes().partition(b"\n")
    except OSError:
        return None
    return data if first == hashlib.sha256(data).hexdigest().encode() else None


@functools.cache
def text_of(*modules: str) -> str:
    """Return a digest, in hex, of the program text of modules: what is kept of them holds it."""
    hashed = hashlib.sha256()
    for name in modules:
        file = importlib.import_module(name).__file__
        assert file is not None
        hashed.update(Path(file).read_bytes())
    return hashed.hexdigest()


def _path(cache: Path, digest: str) -> Path:
    return cache / digest.replace(":", "-")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

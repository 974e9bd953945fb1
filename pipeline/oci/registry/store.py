"""Blobs of registries in the cache: `files/sha256/<hex>`, whole and verified, or not there.

What has come of an unfinished download lies in `partial/<hex>`, which one process at a time holds
by a lock; the next one goes on where it ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pipeline.errors import OutsideTrouble
from pipeline.trust import Trust


class BlobStore:
    """The blobs below a cache directory, shared with everything else that is kept by sha256."""

    def __init__(self, cache: Path):
        self.cache = cache
        self._trust = Trust(cache)

    def path(self, digest: str) -> Path:
        """Where a blob lies, or would lie."""
        return self.cache / "files" / "sha256" / digest.removeprefix("sha256:")

    def has(self, digest: str, size: int | None = None) -> bool:
        """Whether a blob is here and its bytes are those of its digest."""
        return self._trust.holds(self.path(digest), digest.removeprefix("sha256:"), size)

    @contextlib.contextmanager
    def partial(self, digest: str) -> Iterator[BinaryIO]:
        """Open what has come so far of a blob, for reading and writing, alone."""
        path = self.cache / "partial" / digest.removeprefix("sha256:")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                with path.open("a+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    # Whoever held the lock before may have moved the file away.
                    if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                        yield file
                        return
        except OSError as error:
            raise OutsideTrouble(
                f"{path}: {error.strerror}", hint="free some space, or name another cache"
            ) from error

    def keep(self, digest: str, file: BinaryIO) -> None:
        """Give a blob its name: `file` is its open partial file, hashed and found right."""
        file.flush()
        source, target = Path(str(file.name)), self.path(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.chmod(0o444)
        source.replace(target)
        self._trust.record(target, digest.removeprefix("sha256:"))

    def put(self, digest: str, data: bytes) -> None:
        """Keep a small blob, whose digest the caller has checked."""
        with self.partial(digest) as file:
            file.truncate(0)
            file.write(data)
            self.keep(digest, file)

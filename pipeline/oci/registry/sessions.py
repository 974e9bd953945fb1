"""Uploads that were begun, remembered across runs, so that the next one goes on where they ended.

`<cache>/uploads/<key>.json` holds the address that the registry gave for the upload. That is no
token: every request to it asks for the right to push. It is readable by its owner only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.oci.references import Reference


class Session:
    """What is remembered of one upload, held by one process at a time."""

    def __init__(self, handle: int | None):
        self._handle = handle
        self.location = self._read()

    def _read(self) -> str:
        if self._handle is None:
            return ""
        try:
            document = json.loads(os.pread(self._handle, 1 << 16, 0))
            return str(document["location"])
        except (ValueError, KeyError, TypeError, OSError):
            return ""

    def remember(self, location: str) -> None:
        """Note where the upload goes on. What cannot be written is uploaded anew some day."""
        self.location = location
        if self._handle is not None:
            with contextlib.suppress(OSError):
                data = json.dumps({"location": location}).encode()
                os.pwrite(self._handle, data, 0)
                os.ftruncate(self._handle, len(data))


class Sessions:
    """The uploads that a cache directory remembers; None remembers nothing.

    An upload is over when what it wrote has been read back.
    """

    def __init__(self, cache: Path | None):
        self._directory = cache / "uploads" if cache else None

    def knows(self, repository: Reference, digest: str) -> bool:
        """Whether an upload of this blob was begun, by whomever, and is not over."""
        path = self._path(repository, digest)
        return path is not None and path.exists()

    def _path(self, repository: Reference, digest: str) -> Path | None:
        key = hashlib.sha256(f"{repository.name}@{digest}".encode()).hexdigest()
        return self._directory / f"{key}.json" if self._directory else None

    @contextlib.contextmanager
    def of(self, repository: Reference, digest: str) -> Iterator[Session]:
        """Open what is known of an upload. When the block ends without an error, it is forgotten.

        One that another process is at is not known here: two would spoil each other's.
        """
        path = self._path(repository, digest)
        handle = _locked(path) if path else None
        try:
            yield Session(handle)
            if handle is not None and path is not None:
                path.unlink(missing_ok=True)
        finally:
            if handle is not None:
                os.close(handle)


def _locked(path: Path) -> int | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle

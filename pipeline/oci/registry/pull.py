"""Download blobs: streamed, resumed where they broke off, held against their digests."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import requests
import urllib3

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.store import BlobStore

_CHUNK = 1 << 20
Moved = Callable[[int], None]


def pull_blob(
    repository: Repository, digest: str, size: int, store: BlobStore, moved: Moved
) -> Path:
    """Bring a blob into the store and return its place.

    `moved` is called with the number of bytes that came, a negative one when they are given up.
    Raises Refusal for other bytes than its digest says, or when the registry has no such blob.
    """
    if store.has(digest, size):
        moved(size)
        return store.path(digest)
    with store.partial(digest) as file:
        if store.has(digest, size):  # another process brought it meanwhile
            moved(size)
            Path(str(file.name)).unlink()
            return store.path(digest)
        _Download(repository, digest, size, file, moved).run()
        store.keep(digest, file)
    return store.path(digest)


def reread_blob(repository: Repository, digest: str, size: int) -> None:
    """Read a blob that was just written back from the registry, whole, and keep nothing of it.

    A registry that says "201 Created" has not shown yet that it serves the same bytes. Raises
    Refusal for other bytes than its digest says, OutsideTrouble when they cannot be had.
    """
    if repository.blob_size(digest) != size:
        raise OutsideTrouble(
            f"{repository.reference.name}: blob {digest} was taken, but is not there",
            hint="run it again",
        )
    nowhere = cast(BinaryIO, _Nowhere())
    _Download(repository, digest, size, nowhere, lambda count: None).run()


class _Nowhere(io.RawIOBase):
    """A file that is always empty, and takes whatever is written."""

    def read(self, size: int = -1) -> bytes:
        return b""

    def write(self, data: object) -> int:
        return len(cast(bytes, data))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return 0

    def truncate(self, size: int | None = None) -> int:
        return 0


class _Download:
    """One blob on its way into one file."""

    def __init__(
        self, repository: Repository, digest: str, size: int, file: BinaryIO, moved: Moved
    ):
        self._repository, self._digest, self._size = repository, digest, size
        self._file, self._moved = file, moved
        self._hash = hashlib.sha256()
        self._count = 0
        self._resumed = False

    def run(self) -> None:
        self._take_up()
        tries = left = self._repository.wire.patience.tries
        while self._count < self._size:
            before = self._count
            problem = self._stream()
            if self._count < self._size:
                left = tries if self._count > before else left - 1
                if not left:
                    raise OutsideTrouble(
                        f"{self._repository.reference.name}: blob {self._digest} broke off at"
                        f" {self._count} of {self._size} bytes: {problem}",
                        hint="run it again: it goes on from there",
                    )
        found = "sha256:" + self._hash.hexdigest()
        if found == self._digest:
            return
        resumed = self._resumed
        self._restart()
        if resumed:  # what lay here may have been damaged: all of it once more
            self.run()
            return
        raise Refusal(
            f"digest-mismatch: {self._repository.reference.name}: {found} came for blob"
            f" {self._digest}",
            hint="nothing of it was kept; ask whoever runs the registry",
        )

    def _take_up(self) -> None:
        """Hash what is here already."""
        self._file.seek(0)
        while block := self._file.read(_CHUNK):
            self._hash.update(block)
            self._count += len(block)
        self._moved(self._count)
        self._resumed = self._count > 0
        if self._count > self._size:
            self._restart()

    def _restart(self) -> None:
        self._moved(-self._count)
        self._file.truncate(0)
        self._hash = hashlib.sha256()
        self._count = 0
        self._resumed = False

    def _stream(self) -> str:
        """Read on; return what ended it, "" when all is here."""
        wire = self._repository.wire
        with self._repository.blob(self._digest, self._count) as answer:
            if answer.status_code == 416 or not self._continues(answer):
                self._restart()
                if answer.status_code != 200:
                    return "the registry cannot go on from there"
            try:
                while block := answer.raw.read(_CHUNK, decode_content=False):
                    wire.check()
                    self._take(block)
            except (urllib3.exceptions.HTTPError, requests.RequestException, OSError) as error:
                if isinstance(error, OSError) and error.filename:
                    raise
                return type(error).__name__
        return "" if self._count == self._size else "it ended early"

    def _continues(self, answer: Any) -> bool:
        """Whether an answer goes on where we are."""
        if answer.status_code == 200:
            return self._count == 0
        said = answer.headers.get("Content-Range", "")
        return bool(said.startswith(f"bytes {self._count}-"))

    def _take(self, block: bytes) -> None:
        if self._count + len(block) > self._size:
            raise Refusal(
                f"digest-mismatch: {self._repository.reference.name}: blob {self._digest} has more"
                f" than the {self._size} bytes of its descriptor",
                hint="nothing of it was kept; ask whoever runs the registry",
            )
        self._file.write(block)
        self._hash.update(block)
        self._count += len(block)
        self._moved(len(block))

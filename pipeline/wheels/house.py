"""The wheelhouse: every downloaded file, stored under its sha256.

Layout of the cache directory:

    files/sha256/<hex>      the bytes, mode 0444; a file gets this name only after it was hashed
    verified/               what `stat` said of a file when it was hashed (see `pipeline.trust`)
    tmp/<name>/             downloads in flight (see `workspace`)

.debs lie here as well: a store that is addressed by content does not care what it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

import platformdirs

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.trust import Trust


class Locked(Protocol):
    """What the store needs to know of a file: its sha256 in hex and its size in bytes."""

    @property
    def sha256(self) -> str: ...
    @property
    def size(self) -> int | None: ...


class Named(Locked, Protocol):
    """A locked file that also has a file name."""

    @property
    def filename(self) -> str: ...


L = TypeVar("L", bound=Locked)


def default_cache() -> Path:
    """The cache directory: `$SM121_CHAIN_CACHE`, otherwise the user's cache directory."""
    chosen = os.environ.get("SM121_CHAIN_CACHE")
    return Path(chosen) if chosen else platformdirs.user_cache_path("sm121-chain")


def sha256_of(path: Path) -> str:
    """sha256 of a file in hex, read once, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Wheelhouse:
    """A content-addressed store of files below `cache`; several processes may share it.

    It needs no lock: a file enters by a rename within one file system, and whoever comes second
    replaces it by the same bytes.
    """

    def __init__(self, cache: Path):
        self.cache = cache
        self._files = cache / "files" / "sha256"
        self.trust = Trust(cache)

    def path(self, sha256: str) -> Path:
        """Where the file of this digest lies, or would lie."""
        return self._files / sha256

    def has(self, sha256: str, size: int | None = None) -> bool:
        """Whether the file is here, whole, and has the locked size (None: any size)."""
        return self.verified(sha256) and (size is None or self.path(sha256).stat().st_size == size)

    def verified(self, sha256: str) -> bool:
        """Whether the file is here and its bytes are those of its name.

        A file that was hashed before and has not been touched since is not read again. One whose
        bytes have changed is discarded, where the cache is writable, and never used.
        """
        path = self.path(sha256)
        if self.trust.holds(path, sha256):
            return True
        with contextlib.suppress(OSError):  # a read-only cache keeps it, but it is not used
            path.unlink()
        return False

    def add(self, source: Path, sha256: str, size: int | None = None, *, name: str = "") -> Path:
        """Take in a downloaded file (moved, not copied) and return its place.

        `source` must be in the cache's file system (`workspace` gives such a place). It is hashed
        here, whoever may have hashed it before. Raises Refusal, and discards the file, if its bytes
        or its size are not the locked ones; OutsideTrouble if the cache cannot be written.
        """
        label = name or source.name
        found, found_size = sha256_of(source), source.stat().st_size
        if found != sha256 or (size is not None and found_size != size):
            source.unlink()
            raise other_bytes(label, sha256, found, size, found_size)
        target = self.path(sha256)
        try:
            source.chmod(0o444)
            self._files.mkdir(parents=True, exist_ok=True)
            source.replace(target)
        except OSError as error:
            raise OutsideTrouble(f"{label} cannot be stored in {self.cache}: {error}") from error
        self.trust.record(target, sha256)
        return target

    def missing(self, artifacts: Iterable[L]) -> list[L]:
        """Those artifacts whose file is not here, in the given order; hashes side by side."""
        wanted = list(artifacts)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            here = list(pool.map(lambda one: self.has(one.sha256, one.size), wanted))
        return [one for one, found in zip(wanted, here, strict=True) if not found]

    def link_named(self, directory: Path, artifacts: Iterable[Named]) -> None:
        """Give the stored files their own names in `directory`, for pip's --find-links and pylock.

        Hard links, so that the directory may be packed and carried away; symlinks where it lies in
        another file system, because copies would silently take 4 GB more. What else lies there
        stays. Raises OutsideTrouble if a file is not in the store or the directory not writable.
        """
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for artifact in artifacts:
                self._link(directory, artifact)
        except OSError as error:
            raise OutsideTrouble(f"wheels cannot be linked into {directory}: {error}") from error

    def _link(self, directory: Path, artifact: Named) -> None:
        stored, named = self.path(artifact.sha256), directory / artifact.filename
        if named.exists() and named.samefile(stored):
            return
        if not self.verified(artifact.sha256):
            raise OutsideTrouble(f"{artifact.filename} is not in {self.cache}", hint="run `fetch`")
        with tempfile.TemporaryDirectory(prefix=".link-", dir=directory) as scratch:
            link = Path(scratch, artifact.filename)
            try:
                link.hardlink_to(stored)
            except OSError:
                link.symlink_to(stored.absolute())
            link.replace(named)
        self.trust.record(stored, artifact.sha256)  # a new link changes the ctime


def other_bytes(
    name: str, expected: str, found: str, size: int | None = None, found_size: int | None = None
) -> Refusal:
    """The refusal of a file that came with other bytes than the lock names."""
    details = [f"locked sha256 {expected}", f"sha256 of what came {found}"]
    if size is not None and found_size is not None and size != found_size:
        details.append(f"locked size {size} bytes, {found_size} bytes came")
    return Refusal(
        f"hash-mismatch: {name} came with other bytes than the lock names",
        hint="nothing was kept; find out who changed it before you lock it anew",
        details=details,
    )


def total_size(artifacts: Sequence[Locked]) -> int:
    """Sum of the locked sizes in bytes; a size that is not known yet counts as nothing."""
    return sum(artifact.size or 0 for artifact in artifacts)

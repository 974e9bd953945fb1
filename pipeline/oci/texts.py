"""What is kept of layers that allow no random access, when such a layer is read.

A gzip layer must be unpacked from its start for each file that is wanted of it. What is wanted is
nearly always text of moderate size: metadata, sources, headers. So the pass that reads such a layer
keeps all of those, and what a loader reads of the binaries, in one SQLite file a layer, and the
layer itself is rarely read again. This is a cache: whoever takes a text from it holds it against
the sha256 of the layer's index.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Protocol

import zstandard

from pipeline.oci.elf import Elf

MAX_TEXT = 4 * 1024 * 1024  # the largest RECORD in sight has 2 MB
_LOOKED_AT = 8192  # bytes that must hold no NUL
_LEVEL = 1
_ASKED = 500  # placeholders of one statement
_TABLE = "CREATE TABLE texts (sha256 BLOB PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID"
_BINARIES = "CREATE TABLE binaries (sha256 BLOB PRIMARY KEY, elf TEXT NOT NULL) WITHOUT ROWID"


class Keep(Protocol):
    """Is told of files of a layer, by their hex sha256."""

    def text(self, sha256: str, data: bytes) -> None:
        """Take the whole content of a file, if it is worth keeping."""
        ...

    def binary(self, sha256: str, elf: Elf | None) -> None:
        """Take what a loader reads of an ELF file, None for one that it does not load."""
        ...


def is_text(data: bytes) -> bool:
    """Whether a file is worth keeping: small, and text as far as can be seen."""
    return len(data) <= MAX_TEXT and b"\0" not in data[:_LOOKED_AT]


def _elf(row: list[object] | None) -> Elf | None:
    if row is None:
        return None
    soname, needed, rpath, runpath, executable = row
    return Elf(str(soname), tuple(map(str, needed)), str(rpath), str(runpath), bool(executable))  # type: ignore[call-overload]


class Texts:
    """The texts of layers below a directory: one file a layer, whole or not there."""

    def __init__(self, directory: Path):
        self._directory = directory

    def has(self, digest: str) -> bool:
        """Whether the texts of a layer ("sha256:<hex>") have been kept."""
        return self._place(digest).is_file()

    def read(self, digest: str, wanted: Collection[str]) -> dict[str, bytes]:
        """Return what is kept of a layer, by hex sha256; not held against it here."""
        keys = [bytes.fromhex(sha256) for sha256 in wanted]
        found: dict[str, bytes] = {}
        if not self.has(digest):
            return found
        inflate = zstandard.ZstdDecompressor()
        try:
            with contextlib.closing(self._open(digest)) as database:
                for start in range(0, len(keys), _ASKED):
                    some = keys[start : start + _ASKED]
                    marks = ",".join("?" * len(some))
                    rows = database.execute(
                        f"SELECT sha256, data FROM texts WHERE sha256 IN ({marks})", some
                    )
                    for key, data in rows:
                        found[key.hex()] = inflate.decompress(data, max_output_size=MAX_TEXT)
        except (sqlite3.Error, zstandard.ZstdError):
            # Damaged: it is made again, and the layer answers meanwhile.
            self._place(digest).unlink(missing_ok=True)
            return {}
        return found

    def binaries(self, digest: str) -> dict[str, Elf | None]:
        """Return what is kept of a layer's binaries, by hex sha256. Others may be in it, too."""
        if not self.has(digest):
            return {}
        try:
            with contextlib.closing(self._open(digest)) as database:
                rows = database.execute("SELECT sha256, elf FROM binaries").fetchall()
            return {key.hex(): _elf(json.loads(text)) for key, text in rows}
        except (sqlite3.Error, ValueError, TypeError):  # another release of this program wrote it
            return {}

    def _open(self, digest: str) -> sqlite3.Connection:
        return sqlite3.connect(f"{self._place(digest).absolute().as_uri()}?immutable=1", uri=True)

    @contextlib.contextmanager
    def collect(self, digest: str) -> Iterator[Keep | None]:
        """Keep what the block hands over, once it has ended without an error.

        One process at a time; to the others, and when they are kept already, it gives None. So it
        does where nothing can be written: a cache that takes nothing is no harm.
        """
        with contextlib.ExitStack() as stack:
            try:
                self._directory.mkdir(parents=True, exist_ok=True)
                lock = stack.enter_context(self._place(digest).with_suffix(".lock").open("wb"))
                stack.callback(Path(lock.name).unlink, missing_ok=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
                known = self.has(digest)
                if not known:
                    writer = _Writer(self._directory)
            except (OSError, sqlite3.Error):
                known = True
            if known:
                yield None
                return
            stack.callback(writer.discard)
            yield writer
            writer.finish(self._place(digest))

    def _place(self, digest: str) -> Path:
        return self._directory / f"{digest.replace(':', '-')}.texts"


class _Writer:
    """A database under a temporary name."""

    def __init__(self, directory: Path):
        handle, name = tempfile.mkstemp(prefix=".tmp-", dir=directory)
        os.close(handle)
        self._path = Path(name)
        self._deflate = zstandard.ZstdCompressor(level=_LEVEL)
        self._good = True
        self._database = sqlite3.connect(name, check_same_thread=False)
        # It has no name before it is whole, so nothing has to be undone after a crash.
        self._database.execute("PRAGMA journal_mode=OFF")
        self._database.execute("PRAGMA synchronous=OFF")
        self._database.execute(_TABLE)
        self._database.execute(_BINARIES)

    def text(self, sha256: str, data: bytes) -> None:
        if not is_text(data):
            return
        self._insert("texts", sha256, self._deflate.compress(data))

    def binary(self, sha256: str, elf: Elf | None) -> None:
        self._insert("binaries", sha256, json.dumps(elf))

    def _insert(self, table: str, sha256: str, value: bytes | str) -> None:
        if not self._good:
            return
        row = (bytes.fromhex(sha256), value)
        try:
            self._database.execute(f"INSERT OR IGNORE INTO {table} VALUES (?, ?)", row)
        except sqlite3.Error:  # no space: the layer itself is read instead
            self._good = False

    def finish(self, place: Path) -> None:
        with contextlib.suppress(OSError, sqlite3.Error):
            self._database.commit()
            self._database.close()
            if self._good:
                self._path.replace(place)

    def discard(self) -> None:
        with contextlib.suppress(OSError, sqlite3.Error):
            self._database.close()
            self._path.unlink(missing_ok=True)

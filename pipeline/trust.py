"""Which files of the cache were hashed and have not been touched since.

Hashing 8 GB at every run would cost more than the run. So what `stat` says of a file is kept when
it is hashed, and a file is believed as long as it still says the same: ctime cannot be set by a
program, so whatever writes to a file or replaces it shows. Without a record a file is hashed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path


class Trust:
    """The records of one cache directory, kept below `<cache>/verified`. Needs no lock."""

    def __init__(self, cache: Path):
        self._directory = cache / "verified"

    def holds(self, path: Path, sha256: str, size: int | None = None) -> bool:
        """Whether the file is there, has this size, and its content hashes to this hex sha256."""
        try:
            seen = _stat_line(path, sha256)
            if size is not None and path.stat().st_size != size:
                return False
            if self._read(path) == seen:
                return True
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:  # gone, a directory, a loop of links, not ours to read
            return False
        if found != sha256 or _stat_line(path, sha256) != seen:
            return False
        self.record(path, sha256)
        return True

    def record(self, path: Path, sha256: str) -> None:
        """Remember that the file, as it stands, was just hashed to this hex sha256.

        A record that cannot be written (a read-only cache) is no harm: the file is hashed again.
        """
        with contextlib.suppress(OSError):
            line = _stat_line(path, sha256)
            self._directory.mkdir(parents=True, exist_ok=True)
            place = self._place(path)
            # One name for each record, so that none is left behind for good; what two writers at
            # once would make of it is a record that holds nothing.
            new = place.with_name(f".new-{place.name}")
            try:
                new.write_text(line, encoding="utf-8", newline="\n")
                new.replace(place)
            except OSError:
                new.unlink(missing_ok=True)

    def linked(self, path: Path, sha256: str) -> None:
        """Renew the record of a file that got another hard link, which changes its ctime.

        Only if all else is as it was recorded; otherwise the file will be hashed again.
        """
        with contextlib.suppress(OSError):
            known, now = self._read(path).split(), _stat_line(path, sha256).split()
            if known[:3] + known[4:] == now[:3] + now[4:]:
                self.record(path, sha256)

    def _place(self, path: Path) -> Path:
        return self._directory / hashlib.sha256(os.fsencode(path.absolute())).hexdigest()

    def _read(self, path: Path) -> str:
        try:
            return self._place(path).read_text(encoding="utf-8")
        except OSError:
            return ""


def _stat_line(path: Path, sha256: str) -> str:
    status = path.stat()
    return f"{sha256} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}\n"

"""Smoke reports as files: read for the gate, and found again by a release that goes on."""

from __future__ import annotations

import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import UsageError, system_trouble
from pipeline.release.document import MOST_BYTES
from pipeline.release.gate import Wanted, judge_documents
from pipeline.release.report import read_report


@dataclass(frozen=True)
class Kept:
    """A report of an earlier run that is as good as a new one would be."""

    path: Path
    finished: int

    def __str__(self) -> str:
        moment = datetime.fromtimestamp(self.finished, UTC)
        return f"{self.path} of {moment:%Y-%m-%d %H:%M} UTC"


def read_documents(files: Sequence[Path]) -> dict[str, bytes]:
    """Return reports by their names.

    Raises UsageError for what is no file, OutsideTrouble when one cannot be read.
    """
    documents = {}
    for path in files:
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, for ever
                raise UsageError(f"{path} is no file", hint="write the report: smoke --output FILE")
            with path.open("rb") as file:  # one byte more than a report may have: it is refused
                documents[str(path)] = file.read(MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{path}: no such file", hint="make it: smoke --output FILE") from None
        except OSError as error:
            raise system_trouble(error, f"{path} cannot be read") from error
    return documents


def kept_report(path: Path, wanted: Wanted, hosts: Sequence[str], probes: str) -> Kept | None:
    """Return an earlier report if it passes the gate now, and is of these hosts and these probes.

    `probes` is the digest of their files.
    """
    if not path.is_file():
        return None
    documents = read_documents([path])
    if judge_documents(documents, wanted, time.time()):
        return None
    report = read_report(documents[str(path)], str(path))
    is_same = [rank.host for rank in report.ranks] == list(hosts) and report.probes == probes
    return Kept(path, report.finished) if is_same else None

"""Where a report goes: to stdout, or into a file that is whole or not there."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline.errors import system_trouble
from pipeline.lock.table import replace_file


def put(text: str, path: Path | None) -> None:
    """Write a report to `path`, or without one to stdout.

    A file that was there is replaced as a whole; a link is followed; a pipe or a device is written
    to. Raises OutsideTrouble when it cannot be written.
    """
    if path is None:
        sys.stdout.write(text)
    elif path.exists() and not path.is_file():
        try:
            path.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise system_trouble(error, f"{path} cannot be written") from error
    else:
        replace_file(path.resolve(), text)

"""Where a report goes: to stdout, or into a file that is whole or not there."""

from __future__ import annotations

import sys
from pathlib import Path

from pipeline.errors import OutsideTrouble, UsageError, system_trouble
from pipeline.lock.table import replace_file


def check_place(path: Path) -> None:
    """See, before anything that takes long, that a report can go to `path`.

    Raises UsageError for a directory, OutsideTrouble where there is none that would hold it.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint="name the file that is to be written in it")
    parent = path.resolve().parent
    if not parent.is_dir():
        raise OutsideTrouble(
            f"{path}: cannot be written: {parent} is no directory",
            hint="make it first, or name another place",
        )


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

"""Typed reading of one TOML table. Faults are collected with their paths, never raised one by one.

A getter that finds a fault returns an empty value of its type, so reading goes on; whoever reads
looks at the list of faults before a value is used.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pipeline.errors import Fault, OutsideTrouble, UsageError, system_trouble
from pipeline.toml import parse_file

_T = TypeVar("_T")
_WORDS = {str: "a string", int: "an integer", list: "an array", Mapping: "a table", bool: "a bool"}
# TOML 1.0: what an integer can hold in any reader.
_MOST = 2**63 - 1
_LEFT = 3600  # seconds


def read_toml(path: Path, *, missing: str) -> dict[str, Any]:
    """Parse a TOML file; `missing` is the next step to name when there is no such file.

    Raises:
        UsageError: no such file.
        FaultyFile: no file, not UTF-8 or not TOML; the fault's path is the line and column.
        OutsideTrouble: the file cannot be read.
    """
    try:
        return parse_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path}: no such file", hint=missing) from None
    except OSError as error:
        raise OutsideTrouble(
            f"{path} cannot be read: {error.strerror}", hint="see what it is: `ls -l`"
        ) from None


def replace_file(path: Path, text: str) -> None:
    """Write a whole file or nothing: to a name beside it, then renamed, and on the disk by then.

    What UTF-8 cannot say (bytes of a foreign file name) is written as an escape. A writer that was
    killed may leave its `.NAME.PID.new`; one that comes an hour later removes it.

    Raises:
        OutsideTrouble: it cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
            file.flush()
            os.fsync(file.fileno())  # else a crash of the machine can keep the name and no content
        new.replace(path)
        _remove_left(path)
    except BaseException as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        raise OutsideTrouble(
            f"{path}: cannot be written: {error.strerror}", hint=system_trouble(error).hint
        ) from None


def _remove_left(path: Path) -> None:
    """Remove what killed writers of a file left beside it: no writer takes as long as that."""
    left = re.compile(re.escape(f".{path.name}.") + r"[0-9]+\.new")
    for other in list(path.parent.iterdir()):
        if left.fullmatch(other.name):
            with suppress(OSError):
                if time.time() - other.stat().st_mtime > _LEFT:
                    other.unlink()


class Table:
    """One table, the path that leads to it, and the list that its faults go to."""

    def __init__(self, values: Mapping[str, Any], where: str, faults: list[Fault]):
        self.values = values
        self.where = where
        self.faults = faults
        self._read: set[str] = set()

    def at(self, key: str) -> str:
        """Path of a key of this table."""
        return f"{self.where}.{key}" if self.where else key

    def fault(self, key: str, problem: str) -> None:
        """Record a fault of a key, or with "" of the table."""
        self.faults.append(Fault(self.at(key) if key else self.where, problem))

    def _get(self, key: str, kind: type[_T], required: bool, empty: _T) -> _T:
        self._read.add(key)
        value = self.values.get(key)
        if value is None:
            if required:
                self.fault(key, "missing")
            return empty
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self.fault(key, f"{_WORDS[kind]} is needed, this is {value!r}")
            return empty
        return value

    def text(self, key: str, *, required: bool = True, pattern: str = "", like: str = "") -> str:
        """A non-empty string; `pattern` must match all of it, `like` says what that means."""
        value = self._get(key, str, required, "")
        if key in self.values and isinstance(self.values[key], str):
            if not value.strip():
                self.fault(key, "empty")
            elif pattern and not re.fullmatch(pattern, value, re.ASCII):
                self.fault(key, f"{value!r} is not {like}")
                return ""
        return value

    def integer(
        self, key: str, *, required: bool = True, least: int = 0, most: int = _MOST
    ) -> int | None:
        """An integer from `least` to `most`; None where it is absent or faulty."""
        value = self._get(key, int, required, least)
        if value < least:
            self.fault(key, f"{value} is below {least}")
            return None
        if value > most:
            self.fault(key, f"{value} is above {most}")
            return None
        return value if key in self.values else None

    def texts(self, key: str, *, required: bool = True) -> tuple[str, ...]:
        """An array of non-empty strings."""
        texts = []
        for position, item in enumerate(self._get(key, list, required, [])):
            if isinstance(item, str) and item.strip():
                texts.append(item)
            else:
                self.fault(f"{key}[{position}]", f"a non-empty string is needed, this is {item!r}")
        return tuple(texts)

    def table(self, key: str, *, required: bool = True) -> Table:
        """The table below a key; an empty one where it is absent or faulty."""
        values: Mapping[str, Any] = self._get(key, Mapping, required, {})  # type: ignore[type-abstract]
        return Table(values, self.at(key), self.faults)

    def tables(self, key: str, *, required: bool = False) -> list[Table]:
        """An array of tables."""
        tables = []
        for position, item in enumerate(self._get(key, list, required, [])):
            if isinstance(item, Mapping):
                tables.append(Table(item, self.at(f"{key}[{position}]"), self.faults))
            else:
                self.fault(f"{key}[{position}]", f"a table is needed, this is {item!r}")
        return tables

    def judged_elsewhere(self, *keys: str) -> None:
        """Keys that are known, and that this table does not read itself."""
        self._read.update(keys)

    def close(self) -> None:
        """Record every key that nobody asked for."""
        for key in sorted(set(self.values) - self._read):
            self.fault(key, "unknown key")


def sorted_or_fault(table: Table, key: str, keys: list[Any], names: list[str]) -> None:
    """Record where an array is not in strictly rising order; doubles are faults too."""
    for position in range(1, len(keys)):
        if keys[position] <= keys[position - 1]:
            word = "double" if keys[position] == keys[position - 1] else "not sorted"
            problem = f"{word}: {names[position]} stands after {names[position - 1]}"
            table.fault(f"{key}[{position}]", problem)

"""Whether Python files parse for a given Python, whatever Python runs this program.

ruff's parser knows every version's syntax (`ast` knows its own only: 3.11 refuses what 3.12
allows). Some rules are asked as well, because CPython's compiler refuses what they find.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ruff import find_ruff_bin

from pipeline.errors import OutsideTrouble, UsageError
from pipeline.patching.encoding import to_utf8

# what compile() refuses beyond the grammar: misplaced return, break, await, future import,
# starred assignment, default except, nonlocal and global
_COMPILE_ERRORS = "F404,F621,F622,F701,F702,F704,F706,F707,PLE0117,PLE0118,PLE1142"

_TIMEOUT = 120  # seconds; ruff takes milliseconds a file


@dataclass(frozen=True, order=True)
class SyntaxFault:
    """Where a file does not parse, and why. `line` counts from 1."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


def syntax_faults(files: Mapping[str, bytes], python: str) -> dict[str, list[SyntaxFault]]:
    """The faults of each file that does not parse for `python` ("3.12"), by path and sorted.

    Files are read in their declared encoding. All go through one run of ruff.
    Raises UsageError for a Python that ruff does not know, OutsideTrouble when ruff does not run.
    """
    faults: dict[str, list[SyntaxFault]] = {}
    with tempfile.TemporaryDirectory(prefix="sm121-syntax-") as directory:
        names: dict[str, str] = {}
        for number, (path, data) in enumerate(sorted(files.items())):
            text = to_utf8(path, data)
            if text is None:
                faults[path] = [SyntaxFault(1, "not in its declared encoding (UTF-8 without one)")]
                continue
            # a name of its own: no file name of the tree may look like an option to ruff
            name = f"f{number}{PurePosixPath(path).suffix}"
            (Path(directory) / name).write_bytes(text)
            names[name] = path
        for name, fault in _ruff(directory, sorted(names), python) if names else ():
            faults.setdefault(names[name], []).append(fault)
    return {path: sorted(faults[path]) for path in sorted(faults)}


def _ruff(directory: str, names: list[str], python: str) -> list[tuple[str, SyntaxFault]]:
    version = re.fullmatch(r"3\.(\d+)", python)
    if not version:
        raise UsageError(f"{python!r} is no Python version", hint="give one as 3.12")
    command = [find_ruff_bin(), "check", "--isolated", "--no-cache", "--ignore-noqa", "--quiet"]
    command += ["--select", _COMPILE_ERRORS, "--target-version", f"py3{version[1]}"]
    command += ["--output-format", "json", "--", *names]
    # ruff reads settings from the environment too
    env = {key: value for key, value in os.environ.items() if not key.startswith("RUFF_")}
    try:
        done = subprocess.run(
            command, cwd=directory, env=env, capture_output=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OutsideTrouble(f"ruff does not run: {error}") from error
    problem = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if done.returncode < 0:  # for want of memory, as a rule
        raise OutsideTrouble(f"ruff was ended by signal {-done.returncode}", details=problem[:3])
    if done.returncode not in (0, 1):
        raise UsageError(f"ruff cannot judge syntax for Python {python}", details=problem[:3])
    return [
        (
            Path(row["filename"]).name,
            SyntaxFault(row["location"]["row"], row["message"]),
        )
        for row in json.loads(done.stdout)
    ]

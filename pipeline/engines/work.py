"""A step's work: run the program, seal the output, move it to its place; and whose hands do it."""

from __future__ import annotations

import contextlib
import errno
import importlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pipeline.errors import ChainError, OutsideTrouble, is_system_trouble, system_trouble
from pipeline.failures import Failure
from pipeline.graph import Step
from pipeline.oci.blob import NotHere
from pipeline.steps.program import PROGRAMS, RESULT, Inputs, StepOutput, run_program
from pipeline.wheels.house import sha256_of

SEAL = "seal"
"""File beside result.json with its digest, which itself names the digests of all other files."""


@dataclass(frozen=True)
class Wanted:
    """A step must read files that are not here yet: digests, "sha256:<hex>"."""

    digests: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    """An output that nothing had to run for, where the step was to run: its result.json."""

    data: bytes


Outcome = bytes | Found | Failure | Wanted
"""What became of a step: its result.json, what went wrong, or what it must have first."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A step with its inputs on disk, in a form that crosses processes.

    `files` maps hex sha256 to a path, `steps` are directory and result.json of its inputs, `kept`
    is `Inputs.kept`, `out` is where the output goes, `temporary` an empty directory on the same
    file system; a job that only prepares a step has neither.
    """

    program: str
    params: Mapping[str, Any]
    files: Mapping[str, str]
    steps: tuple[tuple[str, bytes], ...]
    kept: str
    out: str = ""
    temporary: str = ""


class Hands(Protocol):
    """What does the steps that an engine gives it, some of them side by side."""

    @property
    def free(self) -> int:
        """How many have nothing to do, and could read ahead."""
        ...

    def takes(self, step: Step) -> bool:
        """Whether a step that is given now begins at once."""
        ...

    def knows(self, program: str) -> bool:
        """Whether a step of a program was done, or prepared, by one that could read ahead."""
        ...

    def give(self, step: Step, job: Job) -> None:
        """Begin a step, or prepare it, if its job has no place for an output."""
        ...

    def wait(self) -> Sequence[tuple[Step, Outcome]]:
        """Wait until something ends; returns the steps that did, and what became of them."""
        ...

    def end(self) -> None:
        """Stop at once what still runs."""
        ...


def prepare(job: Job) -> None:
    """Let a program read what it can of a step whose last inputs are not there yet."""
    module = importlib.import_module(f"pipeline.steps.{PROGRAMS[job.program]}")
    with contextlib.suppress(Exception):  # whatever it is, the step itself will say so
        module.prepare(_inputs(job))


def _inputs(job: Job) -> Inputs:
    return Inputs(
        params=job.params,
        file=lambda sha256: Path(job.files[sha256]),
        steps=[StepOutput(Path(directory), data) for directory, data in job.steps],
        kept=Path(job.kept),
    )


def work(job: Job) -> Outcome:
    """Run one step, and move its output to its place. Raises ValueError for one to be prepared."""
    if not job.out or not job.temporary:
        raise ValueError("a job without a place")  # the directory of work is removed at the end
    temporary = Path(job.temporary)
    try:
        output = run_program(job.program, _inputs(job), temporary)
        put_in_place(output, Path(job.out))
        return output.data
    except NotHere as error:
        return Wanted(error.digests)
    except ChainError as error:
        return Failure.of(error)
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if not is_system_trouble(error):
            raise
        return Failure.of(system_trouble(error, job.program))
    finally:
        remove(temporary)


def put_in_place(output: StepOutput, place: Path) -> None:
    """Seal an output, and give its directory its name. Raises OutsideTrouble if that is taken."""
    directory = output.directory
    (directory / SEAL).write_text(output.digest, encoding="ascii")
    for path in directory.rglob("*"):
        if path.is_file():
            path.chmod(0o444)
    directory.chmod(0o755)
    try:
        directory.rename(place)
    except OSError as error:
        # Another build was faster; its output is the same by definition of the key.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        _check_same(place, output)


def _check_same(place: Path, output: StepOutput) -> None:
    """Refuse an output that stands in the way and is not what this run made.

    One that is damaged is removed before its step runs; where that is forbidden, it is still there.
    """
    try:
        same = (place / RESULT).read_bytes() == output.data and all(
            sha256_of(place / name) == sha256 for name, (sha256, _) in output.files.items()
        )
    except OSError:
        same = False
    if not same:
        raise OutsideTrouble(
            f"{place} is damaged and cannot be replaced", hint="remove it, then run it again"
        )


def remove(directory: Path) -> None:
    """Remove a directory, or what else has its name, if that is allowed."""
    shutil.rmtree(directory, ignore_errors=True)
    if not directory.is_dir():  # what else may have that name: a file, a link
        with contextlib.suppress(OSError):
            directory.unlink()

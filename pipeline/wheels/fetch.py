"""Bringing locked wheels into the wheelhouse: several pips side by side, big files first."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from packaging.utils import canonicalize_name

from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.progress import Progress
from pipeline.transfer.children import Children, Stopped
from pipeline.transfer.haul import Haul
from pipeline.transfer.http import Vanished, stream
from pipeline.wheels.house import Named, Wheelhouse, other_bytes
from pipeline.wheels.pip import Answer, Wanted, download

# A pip costs most of a second to start, and one that is interrupted leaves nothing: so a big file
# has a pip of its own, and small ones share.
_BATCH_BYTES = 24_000_000
_BATCH_FILES = 12


class Wheel(Named, Protocol):
    """A locked wheel; `url` is set when it lies on no index."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def url(self) -> str | None: ...


@dataclass
class _Batch:
    wheels: list[Wheel] = field(default_factory=list)
    size: int = 0

    def fits(self, wheel: Wheel) -> bool:
        """Whether the wheel may join: there is room, and pip takes one version of a project."""
        return (
            len(self.wheels) < _BATCH_FILES
            and self.size + (wheel.size or 0) <= _BATCH_BYTES
            and all(canonicalize_name(w.name) != canonicalize_name(wheel.name) for w in self.wheels)
        )

    def join(self, wheel: Wheel) -> None:
        self.wheels.append(wheel)
        self.size += wheel.size or 0


def batches(wheels: Sequence[Wheel]) -> list[list[Wheel]]:
    """Divide wheels among runs of pip, the run with most bytes first; the same for any order."""
    made: list[_Batch] = []
    for wheel in sorted(wheels, key=lambda w: (-(w.size or 0), w.filename)):
        batch = next((b for b in made if b.fits(wheel)), None)
        if batch is None:
            made.append(batch := _Batch())
        batch.join(wheel)
    return [b.wheels for b in sorted(made, key=lambda b: -b.size)]


class WheelFetcher:
    """Fetches wheels into `house` with up to `jobs` processes, below the directory `space`.

    python    version of the target's Python ("3.11.2")
    dated     when the lock's entries were made, for the messages about what has gone since
    """

    def __init__(
        self,
        house: Wheelhouse,
        space: Path,
        *,
        python: str,
        dated: str,
        jobs: int,
        progress: Progress,
    ):
        self._house = house
        self._space = space
        self._python = ".".join(python.split(".")[:2])
        self._dated = dated
        self._jobs = jobs
        self._progress = progress
        self._children = Children()
        self._stuck = False  # a source did not do its part: asking for more is of no use now
        self._count = itertools.count()

    def fetch(self, wheels: Sequence[Wheel], haul: Haul) -> list[str]:
        """Fetch `wheels`; returns the names of those that were not tried.

        What came, warnings and faults go to `haul`. A fault of one file (other bytes, gone) does
        not keep the others from coming; a source that cannot be reached does. Ctrl-C ends the
        processes; what is in the store by then stays there.
        """
        indexed = batches([w for w in wheels if w.url is None])
        waiting: list[tuple[Callable[[list[Wheel], Haul], None], list[Wheel]]] = [
            *((self._from_url, [w]) for w in wheels if w.url is not None),
            *((self._from_index, batch) for batch in indexed),
        ]
        running: set[Future[None]] = set()
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                while running or (waiting and not self._stuck):
                    while waiting and len(running) < self._jobs and not self._stuck:
                        task, batch = waiting.pop(0)
                        running.add(pool.submit(task, batch, haul))
                    ended, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        future.result()
            except BaseException:
                self._children.stop()
                raise
        return [w.filename for _, batch in waiting for w in batch]

    def _from_index(self, batch: list[Wheel], haul: Haul) -> None:
        with contextlib.suppress(Stopped):
            answer = self._ask(batch, haul)
            if answer.kind == "outside":
                answer = self._ask(batch, haul)
            if answer.kind == "came":
                return
            if answer.kind != "outside" and len(batch) > 1:
                # pip ends at the first fault and keeps nothing: asked one by one, each fault has
                # its file, and the others come.
                for wheel in batch:
                    self._from_index([wheel], haul)
            else:
                self._stuck |= answer.kind == "outside"
                haul.faults.append(self._fault(batch, answer))

    def _ask(self, batch: list[Wheel], haul: Haul) -> Answer:
        directory = self._space / f"pip-{next(self._count)}"
        try:
            answer = download(
                [Wanted(w.name, w.version, w.filename, w.sha256) for w in batch],
                directory,
                python=self._python,
                children=self._children,
                moved=self._progress.moved,
            )
        except OSError as error:  # this program's own files: a full disk, mostly
            answer = Answer("outside", error.strerror or str(error))
        if answer.kind == "came":
            for wheel in batch:
                self._store(wheel, directory / "files" / wheel.filename, haul)
            reasons = dict(answer.yanked)
            for wheel in batch:
                if (why := reasons.get(canonicalize_name(wheel.name))) is not None:
                    haul.warnings.append(
                        f"yanked: {wheel.name} {wheel.version} has been withdrawn by its makers"
                        f" ({why}); its bytes are the locked ones"
                    )
        shutil.rmtree(directory, ignore_errors=True)
        return answer

    def _from_url(self, batch: list[Wheel], haul: Haul) -> None:
        with contextlib.suppress(Stopped):
            for wheel in batch:
                assert wheel.url is not None
                target = self._space / f"url-{next(self._count)}"
                try:
                    stream(
                        wheel.url,
                        target,
                        moved=self._progress.moved,
                        check=self._children.check,
                    )
                except Vanished:
                    haul.faults.append(self._gone(wheel, "nothing is there any more", (wheel.url,)))
                except OutsideTrouble as trouble:
                    trouble.hint = _AGAIN
                    haul.faults.append(trouble)
                else:
                    self._store(wheel, target, haul)

    def _store(self, wheel: Wheel, came: Path, haul: Haul) -> None:
        try:
            stored = self._house.add(came, wheel.sha256, wheel.size, name=wheel.filename)
        except ChainError as fault:
            haul.faults.append(fault)
        else:
            haul.came(wheel.filename, stored.stat().st_size)
            self._progress.done()

    def _fault(self, batch: list[Wheel], answer: Answer) -> ChainError:
        wheel = batch[0]
        if answer.kind == "differs":
            refusal = other_bytes(f"{wheel.name} ({wheel.filename})", answer.expected, answer.got)
            refusal.details = [*refusal.details, *(f"asked {i}" for i in answer.indexes)]
            return refusal
        if answer.kind == "gone":
            return self._gone(wheel, answer.cause, answer.indexes)
        names = wheel.filename + (f" and {len(batch) - 1} others" if len(batch) > 1 else "")
        return OutsideTrouble(
            f"{names} cannot be fetched: {answer.cause}",
            hint=_MAKE_ROOM if answer.cause == os.strerror(errno.ENOSPC) else _AGAIN,
            details=[f"asked {i}" for i in answer.indexes],
        )

    def _gone(self, wheel: Wheel, cause: str, asked: Sequence[str]) -> Refusal:
        return Refusal(
            f"gone: {wheel.filename}: {cause}",
            hint="look for a mirror that still has this file, or move the pin:"
            f" `sm121-chain lock --upgrade {wheel.name}`",
            details=[
                *(f"asked {place}" for place in asked),
                f"locked {self._dated}: {wheel.name} {wheel.version} sha256 {wheel.sha256}",
                "nothing else was taken in its place",
            ],
        )


_MAKE_ROOM = "make room, then run it again: what came is kept"
_AGAIN = "see that the network and pip's index settings work (`pip config list`), then run it again"

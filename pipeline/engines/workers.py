"""The processes of the local engine. Each does one step at a time, and remembers what it has read.

Not a `ProcessPoolExecutor`: which process takes a step matters here. One that has merged the tree
of an image has the next image's at hand, which another one would read from its 30 layers first.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from pipeline.engines.work import Job, Outcome, prepare, work
from pipeline.errors import OutsideTrouble, is_system_trouble
from pipeline.graph import Step
from pipeline.steps.program import PROGRAMS

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Steps make some 100,000 objects that stay; looking for cycles among them takes longer than that.
_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000


@dataclass(frozen=True)
class _Crash:
    """An error of the program itself: the traceback in the process where it was raised."""

    text: str


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    programs: set[str] = field(default_factory=set)
    last: str = ""
    step: Step | None = None
    preparing: bool = False

    def fitness(self, step: Step) -> tuple[bool, bool]:
        """How much of what a step reads this process may still hold."""
        return step.program in self.programs, self.last in step.after


class Workers:
    """`count` processes, which load `programs` while they wait for their first step."""

    def __init__(self, count: int, programs: Sequence[str]):
        # spawn: a fork would copy the threads' locks of the progress display.
        context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []
        with _signals_held():
            resource_tracker.ensure_running()  # it lets signals through again at its end
        with _signals_held():  # a process that is started now inherits that
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, programs), daemon=True)
                process.start()
                theirs.close()  # so that its death ends the connection
                self._workers.append(_Worker(process, ours))

    @property
    def free(self) -> int:
        """How many processes have nothing to do."""
        return sum(1 for worker in self._workers if worker.step is None)

    def takes(self, step: Step) -> bool:
        """Whether a process is free that should do this step.

        One without weight costs little but for what it reads: it waits for a process that has read
        it, and does not take the time of another one.
        """
        idle = [worker for worker in self._workers if worker.step is None]
        if step.weight or not self.knows(step.program):
            return bool(idle)
        return any(step.program in worker.programs for worker in idle)

    def knows(self, program: str) -> bool:
        """Whether some process has run, or prepared, a step of a program."""
        return any(program in worker.programs for worker in self._workers)

    def give(self, step: Step, job: Job) -> None:
        """Let the free process do a step, or prepare it, that has most of what the step reads."""
        idle = (worker for worker in self._workers if worker.step is None)
        worker = max(idle, key=lambda worker: worker.fitness(step))
        worker.step, worker.preparing = step, not job.out
        worker.programs.add(step.program)
        with _deaths():
            worker.connection.send(job)

    def wait(self, news: Connection | None = None) -> list[tuple[Step, Outcome]]:
        """Wait until a step ends; returns all that did, and what became of them.

        None of them, if something comes by `news` before; it is left there.
        """
        busy = {one.connection: one for one in self._workers if one.step is not None}
        done: list[tuple[Step, Outcome]] = []
        for connection in wait([*busy, *([news] if news else [])]):
            if connection is news:
                continue
            worker = busy[connection]  # type: ignore[index]
            step = worker.step
            assert step is not None
            with _deaths():
                outcome: Any = worker.connection.recv()
            if isinstance(outcome, _Crash):
                raise RuntimeError(f"step {step.id}:\n{outcome.text}")
            worker.step = None
            if not worker.preparing:
                worker.last = step.id
                done.append((step, outcome))
        return done

    def end(self) -> None:
        """Stop at once what still runs: its output has no name yet, so nothing is lost but time."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()


@contextlib.contextmanager
def _deaths() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise OutsideTrouble(
            "a worker process died",
            hint="it may have run out of memory; try --jobs 1",
        ) from error


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Keep Ctrl-C and its like for later. A process that is started now never gets any.

    They reach the whole process group, and the engine ends its workers itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Connection, programs: Sequence[str]) -> None:
    """Do steps until the engine ends this process."""
    try:
        _end_with_parent()
        for program in programs:
            if connection.poll():  # a step is there, and imports what it needs
                break
            importlib.import_module(f"pipeline.steps.{PROGRAMS[program]}")
        gc.freeze()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
        while _do_one(connection):
            pass
    except Exception as error:  # what is not said here, the engine says: this process died
        if not is_system_trouble(error):
            raise
        os._exit(1)


def _do_one(connection: Connection) -> bool:
    """Do a step and tell what became of it; False when there will be no more."""
    try:
        job: Job = connection.recv()
    except EOFError:
        return False
    outcome: Outcome | _Crash | None = None
    try:
        if job.out:
            outcome = work(job)
        else:
            prepare(job)
    except Exception as error:  # noqa: BLE001  it is raised again, where somebody sees it
        # What was only prepared is done without that, and then says what is wrong.
        if job.out or not is_system_trouble(error):
            outcome = _Crash(traceback.format_exc())
    connection.send(outcome)
    return True


def _end_with_parent() -> None:
    """Let a worker end when the program is gone, however it went: nobody else would end it."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""The engine `local`: steps run in processes of this machine, without root, runtime or emulation.

Outputs are directories below `<cache>/steps/<key>`. One appears by a rename, whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from pipeline import errors
from pipeline.engines.keys import step_key
from pipeline.engines.schedule import Bring, Listener, Schedule, nothing
from pipeline.errors import ChainError, OutsideTrouble, is_system_trouble, system_trouble
from pipeline.graph import Plan, Step
from pipeline.oci.blob import NotHere
from pipeline.space import check_space
from pipeline.steps.program import RESULT, Inputs, StepOutput, run_program
from pipeline.transfer.workspace import sweep, workspace
from pipeline.trust import Trust
from pipeline.wheels.house import sha256_of

# The digest of result.json, which itself names the digests of all other files of an output.
_SEAL = "seal"
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Each version of the program, and each edit of a patch, leaves outputs behind.
_UNUSED_SECONDS = 14 * 24 * 3600


@dataclass(frozen=True)
class _Failure:
    """An error of a step, in a form that crosses processes."""

    kind: str
    message: str
    hint: str | None
    details: tuple[str, ...]

    def raised(self) -> ChainError:
        error = OutsideTrouble(self.message, hint=self.hint, details=self.details)
        # FaultyFile has a constructor of its own; its message and status are UsageError's.
        kind = getattr(errors, self.kind if self.kind != "FaultyFile" else "UsageError")
        error.__class__ = kind
        return error


@dataclass(frozen=True)
class _Wanted:
    """A step must read files that are not here yet: digests, "sha256:<hex>"."""

    digests: tuple[str, ...]


@dataclass(frozen=True)
class _Job:
    program: str
    params: Mapping[str, Any]
    files: Mapping[str, str]
    steps: tuple[tuple[str, bytes], ...]
    kept: str
    out: str
    temporary: str


@dataclass
class _Run:
    """The state of one run: what may start, and the first failure in the plan's order."""

    schedule: Schedule
    order: Mapping[str, int]
    queue: list[tuple[Step, Path]] = field(default_factory=list)
    error: ChainError | None = None
    _failed: int = -1

    def finish(self, step: Step, output: StepOutput, listener: Listener, *, cached: bool) -> None:
        self.schedule.outputs[step.id] = output
        try:
            listener.finished(step, output, cached=cached)
        except ChainError as error:
            self.fail(step, error)

    def fail(self, step: Step, error: ChainError) -> None:
        if self.error is None or self.precedes(step):
            self.error, self._failed = error, self.order[step.id]

    def precedes(self, step: Step) -> bool:
        return self.order[step.id] < self._failed


class LocalEngine:
    """Runs `jobs` steps side by side and keeps their outputs below `cache`."""

    def __init__(self, cache: Path, jobs: int):
        self._cache = cache
        self._steps = cache / "steps"
        self._trust = Trust(cache)
        self._jobs = jobs

    def run(
        self, plan: Plan, file: Callable[[str], Path], listener: Listener, bring: Bring = nothing
    ) -> Mapping[str, StepOutput]:
        """Run the plan; outputs by step id.

        A step that finds that it must read a file that is not here is run again once `bring` has
        brought it.

        Raises the error of the first step in the plan's order that failed, whatever the order in
        time. What stands before it in the plan is finished first, as its images are good.
        """
        run = _Run(Schedule(plan), {name: number for number, name in enumerate(plan.steps)})
        with contextlib.ExitStack() as stack:
            self._run(run, listener, file, bring, stack)
        if run.error:
            raise run.error
        return run.schedule.outputs

    def _run(
        self,
        run: _Run,
        listener: Listener,
        file: Callable[[str], Path],
        bring: Bring,
        stack: contextlib.ExitStack,
    ) -> None:
        pool: ProcessPoolExecutor | None = None
        space = Path()
        running: dict[Future[_Outcome], tuple[Step, Path]] = {}
        try:
            while True:
                self._take_cached(run, listener)
                while run.queue and len(running) < self._jobs:
                    step, place = run.queue.pop(0)
                    if pool is None:
                        pool = self._pool(run)
                        space = stack.enter_context(workspace(self._cache))
                    listener.started(step)
                    job = self._job(step, place, run.schedule.inputs(step), file, space)
                    with _signals_held():  # a worker inherits that
                        running[pool.submit(_work, job)] = (step, place)
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    step, place = running.pop(future)
                    outcome = future.result()
                    if isinstance(outcome, _Wanted):
                        _bring(bring, outcome.digests, file)
                        run.queue.insert(0, (step, place))
                        continue
                    if isinstance(outcome, _Failure):
                        run.fail(step, outcome.raised())
                        continue
                    output = StepOutput(place, outcome)
                    for name, (sha256, _) in output.files.items():
                        self._trust.record(place / name, sha256)
                    run.finish(step, output, listener, cached=False)
                if run.error:
                    # What just finished may have freed a step that stands before the failed one.
                    self._take_cached(run, listener)
                    left = [*run.queue, *running.values()]
                    if not any(run.precedes(step) for step, _ in left):
                        break
        except BrokenProcessPool as error:
            raise OutsideTrouble(
                "a worker process died",
                hint="it may have run out of memory; try --jobs 1",
            ) from error
        finally:
            if pool is not None:
                self._end(pool)

    def _take_cached(self, run: _Run, listener: Listener) -> None:
        """Queue what must run. What is cached is finished here, and frees what stands on it."""
        while fresh := run.schedule.ready():
            for step in fresh:
                place = self._steps / step_key(step, run.schedule.inputs(step))
                output = self._cached(place)
                if output is None:
                    run.queue.append((step, place))
                else:
                    run.finish(step, output, listener, cached=True)
        run.queue = [item for item in run.queue if not run.error or run.precedes(item[0])]
        run.queue.sort(key=lambda item: -item[0].weight)

    def _pool(self, run: _Run) -> ProcessPoolExecutor:
        check_space(run.schedule.unfinished(), self._cache)
        self._steps.mkdir(parents=True, exist_ok=True)
        with _signals_held():
            resource_tracker.ensure_running()  # started later, it would end `_signals_held`
        # spawn: a fork would copy the threads' locks of the progress display.
        return ProcessPoolExecutor(
            min(self._jobs, len(run.schedule.unfinished())),
            multiprocessing.get_context("spawn"),
            initializer=_end_with_parent,
        )

    def _end(self, pool: ProcessPoolExecutor) -> None:
        """Stop at once what still runs: its output has no name yet, so nothing is lost but time."""
        workers = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join()

    def prune(self) -> None:
        """Remove outputs that no run has used for a while; a run that wants one makes it again."""
        sweep(self._cache)
        limit = time.time() - _UNUSED_SECONDS
        for place in self._steps.iterdir() if self._steps.is_dir() else ():
            with contextlib.suppress(OSError):  # another run may be at it, or the cache read-only
                if (place / RESULT).stat().st_mtime < limit:
                    _remove(place)

    def _job(
        self,
        step: Step,
        place: Path,
        inputs: list[StepOutput],
        file: Callable[[str], Path],
        space: Path,
    ) -> _Job:
        return _Job(
            program=step.program,
            params=step.params,
            files={item.sha256: str(file(item.sha256)) for item in step.files},
            steps=tuple((str(output.directory), output.data) for output in inputs),
            kept=str(self._cache / "indexes"),
            out=str(place),
            temporary=tempfile.mkdtemp(prefix="step-", dir=space),
        )

    def _cached(self, place: Path) -> StepOutput | None:
        """Return the output at `place` if every file of it is what its result says."""
        try:
            output = StepOutput(place, (place / RESULT).read_bytes())
            good = (place / _SEAL).read_bytes() == output.digest.encode("ascii") and all(
                self._trust.holds(place / name, sha256, size)
                for name, (sha256, size) in output.files.items()
            )
        except (OSError, ValueError, KeyError, TypeError):
            good = False
        if not good:
            _remove(place)
            return None
        with contextlib.suppress(OSError):  # a read-only cache is not pruned either
            os.utime(place / RESULT)
        return output


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


def _end_with_parent() -> None:
    """Let a worker end when the program is gone, however it went: nobody else would end it."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


_Outcome = bytes | _Failure | _Wanted


def _bring(bring: Bring, digests: Sequence[str], file: Callable[[str], Path]) -> None:
    bring(digests)
    for digest in digests:
        if not file(digest.removeprefix("sha256:")).is_file():  # or its step would run for ever
            raise OutsideTrouble(
                f"{digest} is not in the cache",
                hint="another program may be removing files from it; run it again",
            )


def _work(job: _Job) -> _Outcome:
    """Run one step in a worker process, and move its output to its place."""
    temporary = Path(job.temporary)
    try:
        inputs = Inputs(
            params=job.params,
            file=lambda sha256: Path(job.files[sha256]),
            steps=[StepOutput(Path(directory), data) for directory, data in job.steps],
            kept=Path(job.kept),
        )
        output = run_program(job.program, inputs, temporary)
        (temporary / _SEAL).write_text(output.digest, encoding="ascii")
        for path in temporary.rglob("*"):
            if path.is_file():
                path.chmod(0o444)
        temporary.chmod(0o755)
        try:
            temporary.rename(job.out)
        except OSError as error:
            # Another build was faster; its output is the same by definition of the key.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            _check_same(Path(job.out), output)
        return output.data
    except NotHere as error:
        return _Wanted(error.digests)
    except ChainError as error:
        return _Failure(type(error).__name__, error.message, error.hint, tuple(error.details))
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if not is_system_trouble(error):
            raise
        trouble = system_trouble(error, job.program)
        return _Failure("OutsideTrouble", trouble.message, trouble.hint, ())
    finally:
        _remove(temporary)


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


def _remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    if not directory.is_dir():  # what else may have that name: a file, a link
        with contextlib.suppress(OSError):
            directory.unlink()

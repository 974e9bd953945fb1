"""The engine `local`: steps run in processes of this machine, without root, runtime or emulation.

Outputs are directories below `<cache>/steps/<key>`. One appears by a rename, whole or not at all.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.engines.keys import step_key
from pipeline.engines.schedule import Bring, Course, Listener, nothing
from pipeline.engines.unused import STEPS
from pipeline.engines.work import SEAL, Found, Hands, Job, Wanted, remove
from pipeline.engines.workers import Workers
from pipeline.errors import OutsideTrouble
from pipeline.failures import Failure
from pipeline.graph import Plan, Step
from pipeline.space import check_space
from pipeline.steps.program import PREPARED, RESULT, StepOutput
from pipeline.transfer.workspace import workspace
from pipeline.trust import Trust

# What runs when a patch was edited: what processes that are started ahead load first.
_OF_STAGES = ("stage", "audit", "stage-layer")


class Run(Course):
    """The state of one run: what may start, each step with the place of its output; and what is
    done, and whether it was cached, that the listener has not been told."""

    def __init__(self, plan: Plan):
        super().__init__(plan)
        self.queue: list[tuple[Step, Path]] = []
        self.running: dict[str, tuple[Step, Path]] = {}
        self.news: deque[tuple[Step, StepOutput, bool]] = deque()

    def done(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        """Let what stands on a step begin. The listener is told later: it may take its time."""
        self.schedule.outputs[step.id] = output
        self.news.append((step, output, cached))

    def next_for(self, workers: Hands) -> tuple[Step, Path] | None:
        """Take the most urgent step that a free process should do."""
        for number, (step, _) in enumerate(self.queue):
            if workers.takes(step):
                return self.queue.pop(number)
        return None

    def tell(self, listener: Listener) -> None:
        """Tell what is done, in the order in which it was."""
        while self.news:
            step, output, cached = self.news.popleft()
            self.finish(step, output, listener, cached=cached)


class LocalEngine:
    """Runs `jobs` steps side by side and keeps their outputs below `cache`."""

    def __init__(self, cache: Path, jobs: int):
        self._cache = cache
        self._steps = cache / STEPS
        self._trust = Trust(cache)
        self._jobs = jobs
        self._ahead: Workers | None = None

    def start_ahead(self) -> None:
        """Start the processes now, where steps will be run soon: they need a while to be ready."""
        # How many steps there will be is not known yet, and --jobs may be any number.
        if self._ahead is None and self._jobs <= (os.cpu_count() or 1):
            self._ahead = Workers(self._jobs, _OF_STAGES)
            # Whatever comes between: nothing else would end them.
            atexit.register(self._ahead.end)

    def run(
        self, plan: Plan, file: Callable[[str], Path], listener: Listener, bring: Bring = nothing
    ) -> Mapping[str, StepOutput]:
        """Run the plan; outputs by step id.

        Raises the error of the first step in the plan's order that failed, whatever the order in
        time. What stands before it in the plan is finished first, as its images are good.
        A step that finds that it must read a file that is not here is run again once `bring` has
        brought it.
        """
        run = Run(plan)
        with contextlib.ExitStack() as stack:
            self._run(run, listener, file, bring, stack)
        if run.error:
            raise run.error
        if left := run.schedule.unfinished():
            raise RuntimeError(f"{len(left)} steps were never run, first {left[0].id}")
        return run.schedule.outputs

    def _run(
        self,
        run: Run,
        listener: Listener,
        file: Callable[[str], Path],
        bring: Bring,
        stack: contextlib.ExitStack,
    ) -> None:
        workers: Hands | None = None
        space = Path()
        while True:
            self._take_cached(run)
            if run.queue and workers is None:
                check_space(run.schedule.unfinished(), self._cache)
                space = stack.enter_context(workspace(self._cache))
                workers = self._workers(run, file)
                stack.callback(workers.end)
            while workers is not None and (item := run.next_for(workers)):
                step, place = item
                listener.started(step)
                job = self._job(step, run.schedule.inputs(step), file)
                temporary = tempfile.mkdtemp(prefix="step-", dir=space)
                workers.give(step, replace(job, out=str(place), temporary=temporary))
                run.running[step.id] = (step, place)
            if workers is not None and workers.free and run.running:
                self._prepare(run, workers, file)
            run.tell(listener)
            left = [*run.queue, *run.running.values()]
            if run.error and not any(run.precedes(step) for step, _ in left):
                return
            # A step may wait for a process that only reads ahead: then nothing runs for a while.
            if workers is None or not left:
                return
            for step, outcome in workers.wait():
                _, place = run.running.pop(step.id)
                if isinstance(outcome, Wanted):
                    _bring(bring, outcome.digests, file)
                    run.queue.insert(0, (step, place))
                    continue
                if isinstance(outcome, Failure):
                    run.fail(step, outcome.raised())
                    continue
                found = isinstance(outcome, Found)
                output = StepOutput(place, outcome.data if isinstance(outcome, Found) else outcome)
                for name, (sha256, _) in output.files.items():
                    self._trust.record(place / name, sha256)
                run.done(step, output, cached=found)

    def _prepare(self, run: Run, workers: Hands, file: Callable[[str], Path]) -> None:
        """Let a process that has nothing to do read ahead, once for each program that can."""
        for step in run.schedule.waiting():
            if step.program in PREPARED and not workers.knows(step.program):
                there = itertools.takewhile(run.schedule.outputs.__contains__, step.after)
                inputs = [run.schedule.outputs[name] for name in there]
                workers.give(step, self._job(step, inputs, file))
                return

    def _take_cached(self, run: Run) -> None:
        """Queue what must run. What is cached is done here, and frees what stands on it."""
        while fresh := run.schedule.ready():
            for step in fresh:
                place = self._steps / step_key(step, run.schedule.inputs(step))
                output = self._cached(place)
                if output is None:
                    run.queue.append((step, place))
                else:
                    run.done(step, output, cached=True)
        run.queue = [item for item in run.queue if not run.error or run.precedes(item[0])]
        run.queue.sort(key=lambda item: run.schedule.rank(item[0]))

    def _workers(self, run: Run, file: Callable[[str], Path]) -> Hands:
        """Return what does the steps of a run that must run."""
        return self.processes(run)

    def processes(self, run: Run) -> Workers:
        """Return processes for what must run: those that were started ahead, if any were."""
        left = run.schedule.unfinished()
        self._steps.mkdir(parents=True, exist_ok=True)
        if self._ahead is not None:
            workers, self._ahead = self._ahead, None
            atexit.unregister(workers.end)
            return workers
        programs = dict.fromkeys(step.program for step in left)
        return Workers(min(self._jobs, len(left)), list(programs))

    def _job(self, step: Step, inputs: Sequence[StepOutput], file: Callable[[str], Path]) -> Job:
        return Job(
            program=step.program,
            params=step.params,
            files={item.sha256: str(file(item.sha256)) for item in step.files},
            steps=tuple((str(output.directory), output.data) for output in inputs),
            kept=str(self._cache / "indexes"),
        )

    def _cached(self, place: Path) -> StepOutput | None:
        """Return the output at `place` if every file of it is what its result says."""
        try:
            output = StepOutput(place, (place / RESULT).read_bytes())
            good = (place / SEAL).read_bytes() == output.digest.encode("ascii") and all(
                self._trust.holds(place / name, sha256, size)
                for name, (sha256, size) in output.files.items()
            )
        except (OSError, ValueError, KeyError, TypeError):
            good = False
        if not good:
            remove(place)
            return None
        with contextlib.suppress(OSError):  # a read-only cache is not pruned either
            os.utime(place / RESULT)
        return output


def _bring(bring: Bring, digests: Sequence[str], file: Callable[[str], Path]) -> None:
    bring(digests)
    for digest in digests:
        if not file(digest.removeprefix("sha256:")).is_file():  # or its step would run for ever
            raise OutsideTrouble(
                f"{digest} is not in the cache",
                hint="another program may be removing files from it; run it again",
            )

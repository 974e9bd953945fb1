"""The order of work: common to all engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pipeline.errors import ChainError
from pipeline.graph import Plan, Step
from pipeline.steps.program import StepOutput

Bring = Callable[[Sequence[str]], None]
"""Brings files that a step must read, by "sha256:<hex>", to where they are looked for."""


def nothing(digests: Sequence[str]) -> None:
    """Bring nothing: all files of a plan were fetched before."""


class Listener(Protocol):
    """What an engine tells while it works. Calls come from one thread."""

    def started(self, step: Step) -> None:
        """A step begins to run; a cached one never starts."""

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        """A step's output is there. An error raised here stops the run."""


class Engine(Protocol):
    """Runs a plan. Raises what a step refused, or OutsideTrouble of its own."""

    def run(
        self, plan: Plan, file: Callable[[str], Path], listener: Listener, bring: Bring = nothing
    ) -> Mapping[str, StepOutput]:
        """Run every step; `file` maps the hex sha256 of a locked file to its path on disk.

        Layers of a base image may be missing there; `bring` is asked for those that are read.
        """
        ...


_LEAST = 8_000_000  # bytes, in terms of `Step.weight`: what even a step without any costs


class Schedule:
    """Which steps may run now, and in which order."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._waiting = dict(plan.steps)
        self.outputs: dict[str, StepOutput] = {}
        self._order = {name: number for number, name in enumerate(plan.steps)}
        self._way: dict[str, int] = {}
        behind: dict[str, int] = {}
        for step in reversed(list(plan.steps.values())):
            self._way[step.id] = step.weight + _LEAST + behind.get(step.id, 0)
            for name in step.after:
                behind[name] = max(behind.get(name, 0), self._way[step.id])

    def rank(self, step: Step) -> tuple[int, int]:
        """Return a key that sorts steps into the order in which they should start.

        What costs next to nothing comes first, in the plan's order: who did the step before it
        still has what it reads, and what it refuses is told early. Of the others comes first the
        one with the heaviest way to the end: no long way is left for last.
        """
        if not step.weight:
            return 0, self._order[step.id]
        return 1, -self._way[step.id]

    def ready(self) -> list[Step]:
        """Take the steps whose inputs are all there. Each step is returned once."""
        steps = [
            step
            for step in self._waiting.values()
            if all(name in self.outputs for name in step.after)
        ]
        for step in steps:
            del self._waiting[step.id]
        return sorted(steps, key=self.rank)

    def waiting(self) -> list[Step]:
        """Return the steps that wait for others, in the plan's order."""
        return list(self._waiting.values())

    def unfinished(self) -> list[Step]:
        """Return the steps without an output, in the plan's order."""
        return [step for step in self._plan.steps.values() if step.id not in self.outputs]

    def inputs(self, step: Step) -> list[StepOutput]:
        """Return the outputs that a step reads, in its own order."""
        return [self.outputs[name] for name in step.after]


class Course:
    """The state of one run: what is done, and the first failure in the plan's order."""

    def __init__(self, plan: Plan):
        self.schedule = Schedule(plan)
        self.error: ChainError | None = None
        self._order = {name: number for number, name in enumerate(plan.steps)}
        self._failed = -1

    def finish(self, step: Step, output: StepOutput, listener: Listener, *, cached: bool) -> None:
        """Take an output; what the listener says against it counts as the step's failure."""
        self.schedule.outputs[step.id] = output
        try:
            listener.finished(step, output, cached=cached)
        except ChainError as error:
            self.fail(step, error)

    def fail(self, step: Step, error: ChainError) -> None:
        """Keep the error of the step that stands first in the plan, whatever came first in time."""
        if self.error is None or self.precedes(step):
            self.error, self._failed = error, self._order[step.id]

    def precedes(self, step: Step) -> bool:
        """Whether the step stands before the failed one: its images are good, so it is finished."""
        return self._order[step.id] < self._failed

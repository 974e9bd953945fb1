"""The order of work: common to all engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

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


class Schedule:
    """Which steps may run now. The heaviest comes first: no long one is left for the end."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self._waiting = dict(plan.steps)
        self.outputs: dict[str, StepOutput] = {}

    def ready(self) -> list[Step]:
        """Take the steps whose inputs are all there. Each step is returned once."""
        steps = [
            step
            for step in self._waiting.values()
            if all(name in self.outputs for name in step.after)
        ]
        for step in steps:
            del self._waiting[step.id]
        return sorted(steps, key=lambda step: -step.weight)

    def unfinished(self) -> list[Step]:
        """Return the steps without an output, in the plan's order."""
        return [step for step in self._plan.steps.values() if step.id not in self.outputs]

    def inputs(self, step: Step) -> list[StepOutput]:
        """Return the outputs that a step reads, in its own order."""
        return [self.outputs[name] for name in step.after]

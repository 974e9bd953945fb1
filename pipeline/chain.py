"""The chain as data: its stages, and how they stand on one another.

Pure values; `stage_files` reads them from the TOML that docs/stages.md describes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.errors import UsageError
from pipeline.payloads import Payload

ROOT = "base"
BASE_TAG = "sm121-base"
BASES = ("wheels", "day0")
BUILT, HELD, UPSTREAM, NOT_APPLICABLE = "built", "held", "upstream", "not-applicable"
STATES = (BUILT, HELD, UPSTREAM, NOT_APPLICABLE)


@dataclass(frozen=True)
class Check:
    """A static check of the finished stage; `arguments` are those that its kind asks for.

    It is asked on `base`, "" for all.
    """

    kind: str
    arguments: Mapping[str, str]
    base: str = ""


@dataclass(frozen=True)
class Status:
    """What becomes of a stage on one base, and why if it is not built."""

    state: str = BUILT
    reason: str = ""


@dataclass(frozen=True)
class Stage:
    """One step of the chain. `environment` is the lock group that it adds, "" for none.

    `smoke` are the GPU probes that an image of the stage must pass before a tag names it.
    """

    name: str
    title: str
    why: str
    parent: str
    tag: str
    file: str
    environment: str = ""
    patches: Sequence[str] = ()
    files: Sequence[Payload] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    status: Mapping[str, Status] = field(default_factory=dict)
    smoke: Sequence[str] = ()

    def on(self, base: str) -> Status:
        """Return the stage's status on a base."""
        return self.status.get(base, Status())

    def checks_on(self, base: str) -> tuple[Check, ...]:
        """Return the checks that are asked on a base."""
        return tuple(check for check in self.checks if check.base in ("", base))

    def files_on(self, base: str) -> tuple[Payload, ...]:
        """Return the files that the stage adds on a base."""
        return tuple(payload for payload in self.files if payload.base in ("", base))


@dataclass(frozen=True)
class Chain:
    """All stages, each after its parent, otherwise by number."""

    stages: Mapping[str, Stage]

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages.values())

    @cached_property
    def _by_tag(self) -> Mapping[str, str]:
        return {stage.tag: stage.name for stage in self.stages.values()}

    def path(self, name: str) -> tuple[Stage, ...]:
        """Return the stages from the first one to `name`, both included. `base` gives ().

        A stage's tag names it too. Raises UsageError for a name that is neither.
        """
        if name == ROOT:
            return ()
        name = self._by_tag.get(name, name)
        if name not in self.stages:
            known = ", ".join(self.stages)
            raise UsageError(f"no stage {name!r}", hint=f"the stages are: {known}")
        path = [self.stages[name]]
        while path[-1].parent != ROOT:
            path.append(self.stages[path[-1].parent])
        return tuple(reversed(path))

    def groups(self, name: str) -> tuple[str, ...]:
        """Return the lock groups on the path of a stage, the oldest first."""
        return tuple(stage.environment for stage in self.path(name) if stage.environment)

    def built_ancestor(self, name: str, base: str) -> str:
        """Return the nearest stage above `name` that has an image on this base, or `base`."""
        for stage in reversed(self.path(name)[:-1]):
            if stage.on(base).state == BUILT:
                return stage.name
        return ROOT

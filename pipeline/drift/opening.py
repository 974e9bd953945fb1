"""Open what a user names as a side of a comparison: any SUBJECT, or a lock file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name

from pipeline.audit.expectation import Expectation, LedgerEntry
from pipeline.audit.lockfile import read_lockfile
from pipeline.chain import BASE_TAG, BUILT, ROOT
from pipeline.drift.sides import Shared, Side, image_side, lock_side
from pipeline.errors import UsageError
from pipeline.lock.model import Override
from pipeline.pins import load_ledger, lock_path
from pipeline.progress import Progress
from pipeline.project import Project
from pipeline.subjects import Subject, open_subject, parse_subject

_STAGE_SEPARATOR = "#"
DIST = Path("dist")


@dataclass(frozen=True)
class Opener:
    """How sides are opened: `line` and `base` choose the lock and the stages of the project in
    `root` that names of stages mean; their images stand in `dist`."""

    root: Path
    cache: Path
    line: str
    base: str
    shared: Shared
    progress: Progress | None = None
    dist: Path = DIST

    def open(self, text: str, beside: Sequence[Side] = ()) -> Side:
        """Open a side; `beside` are those that it will be compared with.

        Raises UsageError for what is no subject and no lock, Refusal when it is damaged, and
        OutsideTrouble.
        """
        if _is_lock(text):
            return self._lock(text, beside)
        subject = self._standing(parse_subject(text))
        view = open_subject(subject, self.cache, progress=self.progress)
        views = [side.view for side in beside if side.view is not None]
        side = image_side(text, view, self.shared, views)
        return self._with_ledger(side)

    @cached_property
    def project(self) -> Project:
        """The project that names of stages are of."""
        return Project(self.root, self.line)

    @cached_property
    def _overrides(self) -> tuple[Override, ...]:
        return load_ledger(lock_path(self.root, self.line))

    def _standing(self, subject: Subject) -> Subject:
        """Return a subject that can be opened: for a stage, its image or its ancestor's."""
        if subject.transport != "stage":
            return subject
        name, tag = subject.tag, BASE_TAG
        if name != ROOT:
            chain = self.project.chain
            stage = chain.path(name)[-1]
            if stage.on(self.base).state != BUILT:
                name = chain.built_ancestor(stage.name, self.base)
                stage = chain.stages.get(name, stage)
            tag = BASE_TAG if name == ROOT else stage.tag
        return Subject("oci", self.dist, tag)

    def _lock(self, text: str, beside: Sequence[Side]) -> Side:
        name, _, stage = text.partition(_STAGE_SEPARATOR)
        path = Path(name)
        if stage:
            expectation = self._of_stage(path, stage)
        else:
            environment: Mapping[str, str] = next(
                (side.environment for side in beside if side.view is not None),
                lock_side("", "", {}, self.shared).environment,
            )
            expectation = read_lockfile(path, environment)
        pins = {one.name: one.version or "" for one in expectation.distributions or ()}
        side = lock_side(text, stage, pins, self.shared)
        return replace(side, environment=expectation.environment)

    def _of_stage(self, path: Path, stage: str) -> Expectation:
        root, line = path.parent, path.stem.removeprefix("pins").lstrip(".")
        if not path.is_file() or lock_path(root, line) != path:
            raise UsageError(
                f"{path}: a stage is named of a lock of the project only",
                hint="pins.toml#v5, or a PEP 751 file without a stage",
            )
        # A plan is much to import for what images say by themselves.
        from pipeline.standing import planned_image
        from pipeline.steps.params import expectation_from

        plan, image = planned_image(Project(root, line), self.base, stage)
        return expectation_from(plan.steps[image.gate[0]].params["expectation"], {})

    def _with_ledger(self, side: Side) -> Side:
        """Let the ledger of the lock here, and its stages, speak for an image of its line."""
        if side.image.version == "" or not lock_path(self.root, self.line).is_file():
            return side
        project = self.project
        stage = project.chain.stages.get(side.image.version)
        if side.image.version != ROOT and (stage is None or stage.tag != side.image.title):
            return side
        groups = {"", *(project.chain.groups(stage.name) if stage is not None else ())}
        overrides = [
            one
            for one in self._overrides
            if one.base in ("", self.base) and (one.group or "") in groups
        ]
        extras: dict[str, frozenset[str]] = {}
        for override in overrides:
            if override.requirement.extras:
                name = canonicalize_name(override.requirement.name)
                extras[name] = frozenset(override.requirement.extras)
        ledger = tuple(
            LedgerEntry(str(one.requirement), tuple(one.against), one.why, one.group)
            for one in overrides
        )
        variables = {
            key: (value, f"{one.name} sets it")
            for one in (project.chain.path(stage.name) if stage is not None else ())
            if one.on(self.base).state == BUILT
            for key, value in one.env.items()
        }
        return replace(side, ledger=ledger, extras=extras, variables=variables)


def _is_lock(text: str) -> bool:
    """Whether a lock file is named: a file of that name, with or without a stage."""
    name = text.partition(_STAGE_SEPARATOR)[0]
    return name.endswith(".toml") and ":" not in name

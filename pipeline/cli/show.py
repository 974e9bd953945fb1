"""`show`: the plan, for people; no network."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.version import Version

from pipeline.chain import BUILT, ROOT, Stage
from pipeline.patching.model import Patch, Variant
from pipeline.patching.variants import choose_variant
from pipeline.plan import delta, make_plan
from pipeline.plan_base import held_by
from pipeline.project import Project

_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain show v5"
    parser.add_argument("stage", nargs="?", help="one stage in full (default: all, a line each)")
    parser.add_argument("--line", default="", help="the lock file pins.LINE.toml")
    parser.add_argument("--base", default="wheels", help="the base (default: wheels)")


def run(args: argparse.Namespace) -> int:
    """Print the plan of a base, or one stage with what it changes and why."""
    project = Project(Path.cwd(), args.line)
    make_plan(project.lock, project.chain, project.patches, base=args.base)
    if args.stage and args.stage != ROOT:
        stage = project.chain.path(args.stage)[-1]  # an unknown stage is a usage error
        lines = _one(project, stage, args.base)
    else:
        lines = _all(project, args.base, only_base=args.stage == ROOT)
    for line in lines:
        print(line)
    return 0


def _all(project: Project, base: str, *, only_base: bool = False) -> Iterator[str]:
    made_of = project.lock.base(base)
    selected = project.lock.select(base)
    what = f"{made_of.image}@{made_of.digest}" if made_of.image else f"{len(selected)} wheels"
    yield f"{ROOT:<5} {'':<6} base {base}: {what}"
    for stage in () if only_base else project.chain:
        status = stage.on(base)
        yield f"{stage.name:<5} {stage.parent:<6} {stage.title} [{status.state}]"
        if status.reason:
            yield from _wrapped("", status.reason, 13)
        for move in _moves(project, stage, base) if status.state == BUILT else ():
            yield f"{'':<13}{move}"
        for name in stage.patches:
            patch = project.patches[name]
            yield from _wrapped("", f"patch {name}: {_edits(project, stage, base, patch)}", 13)
        for payload in stage.files_on(base):
            yield f"{'':<13}file {payload.destination}"


def _one(project: Project, stage: Stage, base: str) -> Iterator[str]:
    stages = project.chain.path(stage.name)
    status = stage.on(base)
    yield f"{stage.name}  {stage.title}"
    yield f"tag      {stage.tag}"
    yield f"path     {' <- '.join([s.name for s in reversed(stages)] + [ROOT])}"
    yield from _wrapped(
        "status", f"{status.state} on base {base}" + (f": {status.reason}" if status.reason else "")
    )
    yield f"defined  stages/{stage.file}"
    yield from _wrapped("why", stage.why)
    for move in _moves(project, stage, base):
        yield f"pin      {move}"
    for name in stage.patches:
        patch = project.patches[name]
        yield from _wrapped("patch", f"{patch.title} (patches/{name}.toml)")
        yield from _wrapped("", _edits(project, stage, base, patch))
    for key, value in stage.env.items():
        yield f"env      {key}={value}"
    for payload in stage.files_on(base):
        yield f"file     {payload.destination} mode {payload.mode:04o} sha256 {payload.sha256}"
        if payload.member:
            yield f"{'':<9}out of {'=='.join(payload.wheel)}: {payload.member}"
    for below in reversed(stages[:-1]):
        state = below.on(base).state
        moves = "; ".join(_moves(project, below, base)) if state == BUILT else state
        yield from _wrapped("on", f"{below.name}: {below.title}" + (f" ({moves})" if moves else ""))


def _edits(project: Project, stage: Stage, base: str, patch: Patch) -> str:
    """Return what a patch does on a base: its edits with their files, or why it does nothing."""
    versions = _versions(project, stage, base)
    variant, outcome, message = choose_variant(patch, versions)
    if variant is None:
        return f"{outcome.value}: {message}"
    mark = f" (unverified: {variant.unverified})" if variant.unverified else ""
    if variant.not_needed:
        return f"not needed: {variant.not_needed}"
    if not variant.edits:
        return f"{variant.label} has it; {len(variant.upstream)} signs of it are checked{mark}"
    return "; ".join(f"{', '.join(ids)} in {file}" for file, ids in _by_file(variant)) + mark


def _by_file(variant: Variant) -> Iterator[tuple[str, list[str]]]:
    for file in dict.fromkeys(edit.file for edit in variant.edits):
        yield file, [edit.id for edit in variant.edits if edit.file == file]


def _versions(project: Project, stage: Stage, base: str) -> Mapping[str, Version]:
    """Return the distributions of a stage that are known without looking into the image."""
    lock = project.lock
    known = dict(lock.base(base).inventory)
    for wheel in lock.select(base, project.chain.groups(stage.name)):
        known[wheel.name] = wheel.version
    return {name: Version(version) for name, version in known.items()}


def _wrapped(label: str, text: str, indent: int = 9) -> Iterator[str]:
    lines = textwrap.wrap(" ".join(text.split()), _WIDTH - indent, break_on_hyphens=False)
    for number, line in enumerate(lines):
        yield f"{label if number == 0 else '':<{indent}}{line}"


def _moves(project: Project, stage: Stage, base: str) -> Iterator[str]:
    chain, lock = project.chain, project.lock
    made_of = lock.base(base)
    parent = chain.groups(chain.built_ancestor(stage.name, base))
    before = held_by(lock, made_of, parent, made_of.inventory)
    change = delta(before, held_by(lock, made_of, chain.groups(stage.name), made_of.inventory))
    old = {wheel.name: wheel.version for wheel in change.removed}
    new = {wheel.name: wheel.version for wheel in change.installed}
    for name in sorted(old | new):
        yield f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}"

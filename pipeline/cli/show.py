"""`show`: the plan, for people; no network."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pipeline.chain import BUILT, ROOT, Stage
from pipeline.plan import delta, make_plan
from pipeline.project import Project

_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("stage", nargs="?", help="one stage in full (default: all, a line each)")
    parser.add_argument("--line", default="", help="the lock file pins.LINE.toml")
    parser.add_argument("--base", default="wheels", help="the base (default: wheels)")


def run(args: argparse.Namespace) -> int:
    """Print the plan of a base, or one stage with what it changes and why."""
    project = Project(Path.cwd(), args.line)
    make_plan(project.lock, project.chain, project.patches, base=args.base)
    if args.stage is not None:
        project.chain.path(args.stage)  # an unknown stage is a usage error
        stages = project.chain.path(args.stage)
        lines = _one(project, stages[-1], args.base) if stages else _all(project, args.base)
        for line in lines if stages else [next(lines)]:
            print(line)
    else:
        for line in _all(project, args.base):
            print(line)
    return 0


def _all(project: Project, base: str) -> Iterator[str]:
    selected = project.lock.select(base)
    yield f"{ROOT:<5} {'':<6} base {base}, {len(selected)} distributions locked"
    for stage in project.chain:
        status = stage.on(base)
        state = "" if status.state == BUILT else f" [{status.state}]"
        yield f"{stage.name:<5} {stage.parent:<6} {stage.title}{state}"
        if status.state != BUILT:
            yield f"{'':<13}{status.reason}"
            continue
        for move in _moves(project, stage, base):
            yield f"{'':<13}{move}"
        for name in stage.patches:
            patch = project.patches[name]
            edits = {edit.id for variant in patch.variants for edit in variant.edits}
            yield f"{'':<13}patch {name}: {', '.join(sorted(edits))}"


def _one(project: Project, stage: Stage, base: str) -> Iterator[str]:
    path = " <- ".join([s.name for s in reversed(project.chain.path(stage.name))] + [ROOT])
    status = stage.on(base)
    yield f"{stage.name}  {stage.title}"
    yield f"tag      {stage.tag}"
    yield f"path     {path}"
    yield f"status   {status.state} on base {base}" + (
        f": {status.reason}" if status.reason else ""
    )
    yield f"defined  stages/{stage.file}"
    yield from _wrapped("why", stage.why)
    for move in _moves(project, stage, base):
        yield f"pin      {move}"
    for name in stage.patches:
        patch = project.patches[name]
        yield f"patch    {name} (patches/{name}.toml): {patch.title}"
        for variant in patch.variants:
            for edit in variant.edits:
                scope = f" in {edit.within}" if edit.within else ""
                yield f"  {edit.id:<7}{edit.file}{scope}"
    for key, value in stage.env.items():
        yield f"env      {key}={value}"
    for payload in stage.files:
        yield f"file     {payload.destination} mode {payload.mode:04o} sha256 {payload.sha256}"


def _wrapped(label: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(" ".join(text.split()), _WIDTH - 9)
    for number, line in enumerate(lines):
        yield f"{label if number == 0 else '':<9}{line}"


def _moves(project: Project, stage: Stage, base: str) -> Iterator[str]:
    chain, lock = project.chain, project.lock
    before = lock.select(base, chain.groups(chain.built_ancestor(stage.name, base)))
    change = delta(before, lock.select(base, chain.groups(stage.name)))
    old = {wheel.name: wheel.version for wheel in change.removed}
    new = {wheel.name: wheel.version for wheel in change.installed}
    for name in sorted(old | new):
        yield f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}"

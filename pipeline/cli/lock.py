"""`lock`: resolve, check, explain and export the lock of a line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

from pipeline.audit.findings import ERROR, Finding
from pipeline.chain import BASES, ROOT
from pipeline.errors import OutsideTrouble, UsageError
from pipeline.lock.checks import StagePaths, check
from pipeline.lock.explain import explain
from pipeline.lock.export import export, link_wheels
from pipeline.lock.metadata import Metadata
from pipeline.lock.remote import ask
from pipeline.lock.summary import summary
from pipeline.lock.table import replace_file
from pipeline.lock.update import read_inputs, update
from pipeline.pins import lock_path
from pipeline.project import Project
from pipeline.wheels.house import Wheelhouse, default_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="judge the lock as it is; no network")
    what.add_argument(
        "--upgrade",
        nargs="+",
        metavar="NAME",
        default=[],
        help="resolve, and let these packages be newer than the lock's moment; `debs`: the .debs",
    )
    what.add_argument("--explain", metavar="NAME", help="who wants a package, and what holds it")
    what.add_argument("--export", metavar="STAGE", help="write pylock.STAGE.toml for uv and pip")
    parser.add_argument(
        "--remote", action="store_true", help="with --check: what is gone, yanked or re-pointed"
    )
    parser.add_argument("--base", choices=BASES, default="wheels", help="with --export")
    parser.add_argument("--debian-mirror", metavar="URL", default="", help="instead of apt's own")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Without an option: resolve everything again, and write the lock where it differs."""
    project = Project(Path.cwd(), args.line)
    if args.remote and not args.check:
        raise UsageError("--remote goes with --check", hint="lock --check --remote")
    if args.check:
        return _check(project, args)
    if args.explain:
        metadata = Metadata(Wheelhouse(default_cache()))
        for line in explain(project.lock, args.explain, _paths(project), metadata):
            print(line)
        return 0
    if args.export:
        return _export(project, args)
    return _update(project, args)


def _paths(project: Project, groups: Iterable[str] | None = None) -> StagePaths:
    """What each stage selects. A line without groups needs no stages."""
    if not tuple(project.lock.groups if groups is None else groups):
        return {ROOT: ()}
    stages = {stage.name: project.chain.groups(stage.name) for stage in project.chain}
    return {ROOT: (), **stages}


def _check(project: Project, args: argparse.Namespace) -> int:
    lock, paths = project.lock, _paths(project)
    for line in summary(lock, paths):
        print(line)
    findings = check(lock, paths, Metadata(Wheelhouse(default_cache())), _now().date())
    troubles: list[OutsideTrouble] = []
    if args.remote:
        more, troubles = ask(lock, mirror=args.debian_mirror, say=_say(args))
        findings = sorted({*findings, *more}, key=Finding.sort_key)
    for finding in findings:
        print(_line(finding))
    if troubles:
        raise troubles[0]
    return int(any(finding.severity == ERROR for finding in findings))


def _line(finding: Finding) -> str:
    tail = f" [{finding.reason}]" if finding.reason else f" -> {finding.fix}" if finding.fix else ""
    return f"{finding.severity:<7} {finding.rule}: {finding.message}{tail}"


def _export(project: Project, args: argparse.Namespace) -> int:
    lock, stage = project.lock, args.export
    groups = () if stage == ROOT else project.chain.groups(stage)
    target = Path(f"pylock.{stage}.toml")
    replace_file(target, export(lock, args.base, groups, stage))
    wheels = lock.select(args.base, groups)
    missing = link_wheels(wheels, Wheelhouse(default_cache()), Path())
    print(target)
    if missing:
        told = f"{missing} of {len(wheels)} wheels are not here yet: run fetch, then this again"
        print(told, file=sys.stderr)
    return 0


def _update(project: Project, args: argparse.Namespace) -> int:
    path = lock_path(project.root, project.line)
    _, groups = read_inputs(path)
    paths = _paths(project, groups)
    before = path.read_text(encoding="utf-8")
    after = update(
        path,
        paths.values(),
        upgrade=args.upgrade,
        moment=_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        mirror=args.debian_mirror,
        say=_say(args),
    )
    if before == after:
        print(f"{path.name}: unchanged", file=sys.stderr)
        return 0
    replace_file(path, after)
    for line in summary(project.lock, paths):
        print(line)
    return 0


def _now() -> datetime:
    """The one use of the clock: reviews that are due, and the moment that an upgrade is from."""
    return datetime.now(tz=UTC)


def _say(args: argparse.Namespace) -> Callable[[str], None]:
    """Where progress goes: stderr, or nowhere."""

    def say(text: str) -> None:
        if not args.quiet:
            print(text, file=sys.stderr)

    return say

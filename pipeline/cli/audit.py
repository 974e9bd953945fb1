"""`audit`: one image against the lock. The report goes to stdout, or to --output."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from pipeline.audit.environment import image_environment
from pipeline.audit.expectation import Expectation
from pipeline.audit.findings import ERROR
from pipeline.audit.lockfile import read_lockfile
from pipeline.audit.memo import AuditMemo
from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.chain import BASE_TAG, BASES, ROOT
from pipeline.collector import collector_paused
from pipeline.errors import system_trouble
from pipeline.inventory.facts import read_binaries, read_metadata
from pipeline.inventory.loader import Loader
from pipeline.oci.view import ImageView
from pipeline.patching.scopes import scope_bytes
from pipeline.pins import lock_path
from pipeline.progress import progress_on
from pipeline.project import Project
from pipeline.report import json, text
from pipeline.standing import planned_image, standing_subject
from pipeline.steps.params import expectation_from
from pipeline.subjects import open_subject, parse_subject
from pipeline.wheels.house import default_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.add_argument(
        "subject",
        metavar="SUBJECT",
        help="oci:DIR[:TAG], docker-archive:FILE[:TAG], docker://REF, rootfs:DIR, or a stage",
    )
    parser.add_argument(
        "--against",
        metavar="STAGE|LOCKFILE",
        help="what it should be: a stage, or any PEP 751 file (default: the stage that SUBJECT is)",
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    level = parser.add_mutually_exclusive_group()
    level.add_argument(
        "-v", "--verbose", action="store_true", help="every file, and what is tolerated"
    )
    level.add_argument("-q", "--quiet", action="store_true", help="no report: the exit status only")


def run(args: argparse.Namespace) -> int:
    """Audit the subject; 1 when a finding is an error, otherwise 0."""
    subject = parse_subject(args.subject)
    against = args.against or (subject.tag if subject.transport == "stage" else "")
    subject = standing_subject(subject, args.line, args.base)
    with progress_on(sys.stderr, quiet=args.quiet) as progress, collector_paused():
        view = open_subject(subject, default_cache(), progress=progress)
        against = against or _stage_of(view, args)
        memo = AuditMemo()
        read_metadata(view, default_cache(), memo.metadata)
        expectation = _expectation(view, against, args)
        loader = Loader(view, read_binaries(view, default_cache()))
        report = audit(view, expectation, read_scope=scope_bytes, memo=memo, loader=loader)
    if args.output:
        try:
            with args.output.open("w", encoding="utf-8", newline="\n") as file:
                _write(report, args, file)
        except OSError as error:
            raise system_trouble(error, f"{args.output} cannot be written") from error
    elif not args.quiet:
        _write(report, args, sys.stdout)
    return 1 if report.worst == ERROR else 0


def _stage_of(view: ImageView, args: argparse.Namespace) -> str:
    """Return the stage that an image of ours says it is, if the project here knows it; else ""."""
    labels = (view.config.get("config") or {}).get("Labels") or {}
    name, title = (labels.get(f"org.opencontainers.image.{key}") for key in ("version", "title"))
    if not lock_path(Path.cwd(), args.line).is_file():
        return ""
    if name == ROOT:
        return ROOT if title == BASE_TAG else ""
    stage = Project(Path.cwd(), args.line).chain.stages.get(str(name))
    return stage.name if stage is not None and stage.tag == title else ""


def _expectation(view: ImageView, against: str, args: argparse.Namespace) -> Expectation:
    if not against:
        return Expectation(environment=image_environment(view))
    if against.endswith(".toml") or Path(against).is_file():
        return read_lockfile(Path(against), image_environment(view))
    plan, image = planned_image(Project(Path.cwd(), args.line), args.base, against)
    return expectation_from(plan.steps[image.gate[0]].params["expectation"], {})


def _write(report: AuditReport, args: argparse.Namespace, out: TextIO) -> None:
    if args.format == "json":
        out.write(json.render(report.to_json()))
    else:
        text.write_audit(report, out, verbose=args.verbose)

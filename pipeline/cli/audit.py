"""`audit`: one image against the lock. The report goes to stdout, or to --output."""

from __future__ import annotations

import argparse
import io
import sys
from dataclasses import replace
from pathlib import Path

from pipeline.audit.environment import image_environment
from pipeline.audit.expectation import Expectation
from pipeline.audit.lockfile import read_lockfile
from pipeline.audit.memo import AuditMemo
from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.chain import BASE_TAG, BASES, ROOT
from pipeline.cli.reporting import (
    HTML,
    JSON,
    TEXT,
    add_report_arguments,
    baseline_of,
    places_of,
    publish,
    rendered,
    settled,
)
from pipeline.collector import collector_paused
from pipeline.inventory.facts import read_binaries, read_metadata
from pipeline.inventory.loader import Loader
from pipeline.oci.view import ImageView
from pipeline.patching.scopes import scope_bytes
from pipeline.pins import lock_path
from pipeline.progress import progress_on
from pipeline.project import Project
from pipeline.report import json, text
from pipeline.report.judged import fails, judged_audit
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
    add_report_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Audit the subject; 1 when a finding reaches the threshold, otherwise 0."""
    baseline = baseline_of(args)
    subject = parse_subject(args.subject)
    against = args.against or (subject.tag if subject.transport == "stage" else "")
    subject = standing_subject(subject, args.line, args.base)
    with progress_on(sys.stderr, quiet=args.quiet) as progress, collector_paused():
        view = open_subject(subject, default_cache(), progress=progress)
        against = against or _stage_of(view, args)
        expectation = _expectation(view, against, args)
        memo = AuditMemo()
        read_metadata(view, default_cache(), memo.metadata)
        loader = Loader(view, read_binaries(view, default_cache()))
        report = audit(view, expectation, read_scope=scope_bytes, memo=memo, loader=loader)
    versions: dict[str, list[str]] = {}
    for one in report.distributions:
        versions.setdefault(one.name, []).append(one.version)
    report = replace(report, findings=settled(report.findings, versions, baseline, args))
    if args.format == TEXT and args.output is None and not args.quiet:
        text.write_audit(report, sys.stdout, verbose=args.verbose)
    else:
        publish(_rendered(report, expectation, args), args)
    return 1 if fails(report.findings, args.fail_on) else 0


def _rendered(report: AuditReport, expectation: Expectation, args: argparse.Namespace) -> str:
    pins = {name: pin.version or "" for name, pin in expectation.pins.items()}
    if args.format == JSON:
        return json.render(report.to_json())
    if args.format == HTML:
        # Only this format pays for its imports.
        from pipeline.report.html import html
        from pipeline.report.page_audit import audit_page

        return html(audit_page(report, pins, threshold=args.fail_on))
    if args.format == TEXT:
        out = io.StringIO()
        text.write_audit(report, out, verbose=args.verbose)
        return out.getvalue()
    lock = args.against if args.against and args.against.endswith(".toml") else ""
    return rendered(judged_audit(report), args, places_of(args.line, pins, lock))


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

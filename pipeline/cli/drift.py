"""`drift`: what moved between two images, or along a line. The report goes to stdout."""

from __future__ import annotations

import argparse
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from pipeline.chain import BASES
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
from pipeline.drift.compare import compare
from pipeline.drift.comparison import Comparison
from pipeline.drift.matrix import History
from pipeline.drift.opening import Opener
from pipeline.drift.sides import Shared
from pipeline.errors import UsageError
from pipeline.oci.references import parse_reference
from pipeline.progress import progress_on
from pipeline.report import json
from pipeline.report.judged import fails
from pipeline.report.text_drift import write_comparison, write_history
from pipeline.wheels.house import default_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """examples:
  drift v3 v5                          two stages that stand in dist/
  drift docker://REPO:old oci:DIR:new  any two subjects
  drift pins.toml#v5 docker-archive:v5.tar   the lock of a stage, and an image
  drift --line ""                      the whole default line as one matrix
  drift --tags registry.example/repo   the tags of a repository as one matrix"""
    parser.add_argument(
        "subjects",
        nargs="*",
        metavar="A B",
        help="oci:DIR[:TAG], docker-archive:FILE[:TAG], docker://REF, rootfs:DIR, a stage, or a "
        "lock: FILE.toml[#STAGE]",
    )
    parser.add_argument(
        "--line", metavar="L", help='the lock: pins.L.toml (default and "": pins.toml)'
    )
    parser.add_argument(
        "--tags", metavar="REPOSITORY", help="every tag of a repository, as one matrix"
    )
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    add_report_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Compare; 1 when a finding reaches the threshold, otherwise 0."""
    baseline = baseline_of(args)
    with progress_on(sys.stderr, quiet=args.quiet) as progress, collector_paused():
        cache = default_cache()
        opener = Opener(
            Path.cwd(), cache, args.line or "", args.base, Shared(cache), progress=progress
        )
        result = _result(args, opener)
    result = replace(result, findings=settled(result.findings, _versions(result), baseline, args))
    if args.format == TEXT and args.output is None and not args.quiet:
        _write(result, args, sys.stdout)
    else:
        publish(_rendered(result, args), args)
    return 1 if fails(result.findings, args.fail_on) else 0


def _result(args: argparse.Namespace, opener: Opener) -> Comparison | History:
    if args.tags is not None:
        if args.subjects:
            raise UsageError("--tags takes no subjects", hint="drift --tags REPOSITORY")
        from pipeline.drift.history import tags_history

        return tags_history(parse_reference(args.tags.removeprefix("docker://")), opener)
    if not args.subjects and args.line is not None:
        from pipeline.drift.history import line_history

        return line_history(opener)
    if len(args.subjects) != 2:
        raise UsageError(
            f"drift compares two subjects, and {len(args.subjects)} are given",
            hint='drift A B; or a matrix: drift --line "", drift --tags REPOSITORY',
        )
    before = opener.open(args.subjects[0])
    return compare(before, opener.open(args.subjects[1], [before]))


def _versions(result: Comparison | History) -> dict[str, list[str]]:
    """Return the versions that packages went to, by name."""
    steps = [result] if isinstance(result, Comparison) else []
    if isinstance(result, History):
        steps = [one.comparison for one in result.columns if one.comparison is not None]
    found: dict[str, list[str]] = {}
    for step in steps:
        for change in step.changes:
            found.setdefault(change.name, []).append(change.after)
    return found


def _write(result: Comparison | History, args: argparse.Namespace, out: TextIO) -> None:
    if isinstance(result, Comparison):
        write_comparison(result, out, verbose=args.verbose)
    else:
        write_history(result, out, verbose=args.verbose)


def _rendered(result: Comparison | History, args: argparse.Namespace) -> str:
    if args.format == JSON:
        return json.render(result.to_document())
    if args.format == TEXT:
        out = io.StringIO()
        _write(result, args, out)
        return out.getvalue()
    # Only the format that is asked for pays for its imports.
    if args.format == HTML:
        from pipeline.report.html import html
        from pipeline.report.page_drift import comparison_page, history_page

        threshold = args.fail_on
        return html(
            comparison_page(result, threshold=threshold)
            if isinstance(result, Comparison)
            else history_page(result, threshold=threshold)
        )
    from pipeline.report.judged_drift import judged_comparison, judged_history
    from pipeline.report.markdown_drift import comparison_tables, history_tables

    if isinstance(result, Comparison):
        judged, tables = judged_comparison(result), comparison_tables(result)
    else:
        judged, tables = judged_history(result), history_tables(result)
    return rendered(judged, args, places_of(args.line or "", {}), tables)

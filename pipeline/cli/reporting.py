"""What the verbs that report findings share: formats, threshold, baseline file, output."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.accepted import Baseline, propose, read_baseline, the_day
from pipeline.audit.findings import ERROR, Finding
from pipeline.errors import UsageError
from pipeline.pins import lock_path
from pipeline.report import json
from pipeline.report.judged import NEVER, THRESHOLDS, Judged, counts_from
from pipeline.report.output import check_place, put

if TYPE_CHECKING:
    from pipeline.report.markdown import Table
    from pipeline.report.places import Places

TEXT, JSON, SARIF, JUNIT, MARKDOWN, HTML = "text", "json", "sarif", "junit", "markdown", "html"
FORMATS = (TEXT, JSON, SARIF, JUNIT, MARKDOWN, HTML)


def add_report_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what both verbs take for their report."""
    group = parser.add_argument_group("report")
    group.add_argument("--format", choices=FORMATS, default=TEXT, help="of the report")
    group.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    group.add_argument(
        "--fail-on",
        choices=THRESHOLDS,
        default=ERROR,
        help="the least severity that ends with exit status 1 (default: error)",
    )
    group.add_argument(
        "--baseline", type=Path, metavar="FILE", help="findings that are accepted, with reasons"
    )
    group.add_argument(
        "--write-baseline",
        type=Path,
        metavar="FILE",
        help="propose a baseline file of what fails now; reasons and last days are for you to fill",
    )
    group.add_argument(
        "--today",
        default="",
        metavar="DAY",
        help="for the last days of a baseline (default: SOURCE_DATE_EPOCH, or the clock)",
    )
    level = group.add_mutually_exclusive_group()
    level.add_argument(
        "-v", "--verbose", action="store_true", help="every file, and what is tolerated"
    )
    level.add_argument("-q", "--quiet", action="store_true", help="no report: the exit status only")


def baseline_of(args: argparse.Namespace) -> Baseline | None:
    """Read the baseline file, and see that what is to be written has a place, before anything that
    takes long. Raises UsageError, FaultyFile, OutsideTrouble."""
    for place in (args.output, args.write_baseline):
        if place is not None:
            check_place(place)
    if args.today and args.baseline is None:
        raise UsageError("--today is for the days of a baseline", hint="name one with --baseline")
    return read_baseline(args.baseline) if args.baseline else None


def settled(
    findings: Sequence[Finding],
    versions: Mapping[str, Sequence[str]],
    baseline: Baseline | None,
    args: argparse.Namespace,
) -> tuple[Finding, ...]:
    """Return the findings as the baseline leaves them; write the proposal that was asked for.

    `versions` are those of the image, by subject.
    """
    if args.write_baseline:
        threshold = THRESHOLDS[-2] if args.fail_on == NEVER else args.fail_on
        failing = [one for one in findings if counts_from(one.severity, threshold)]
        put(propose(failing, versions, baseline), args.write_baseline)
    if baseline is None:
        return tuple(findings)
    return baseline.apply(findings, versions, the_day(args.today))


def places_of(line: str, versions: Mapping[str, str], lock: str = "") -> Places:
    """Return the places of a checkout in the current directory."""
    from pipeline.report.places import Places

    name = lock or lock_path(Path(), line).name
    stages = f"stages/{line}" if line else "stages"
    return Places(Path.cwd(), name, stages, versions)


def rendered(
    judged: Judged,
    args: argparse.Namespace,
    places: Places,
    tables: Iterable[Table] = (),
) -> str:
    """Return findings in one of the formats that are the same for every verb."""
    # Only the format that is asked for pays for its imports.
    if args.format == SARIF:
        from pipeline.report.sarif import sarif

        return json.render(sarif(judged, places))
    if args.format == JUNIT:
        from pipeline.report.junit import junit

        return junit([judged], threshold=args.fail_on)
    from pipeline.report.markdown import markdown

    return markdown(judged, threshold=args.fail_on, tables=tables)


def publish(text: str, args: argparse.Namespace) -> None:
    """Put a report where it was asked for. -q keeps it from stdout alone."""
    if args.output or not args.quiet:
        put(text, args.output)

"""`drift`: what moved between two images, or along a line. The report goes to stdout."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TextIO

from pipeline.audit.findings import ERROR
from pipeline.chain import BASES
from pipeline.collector import collector_paused
from pipeline.drift.compare import compare
from pipeline.drift.history import line_history, tags_history
from pipeline.drift.model import Comparison, History
from pipeline.drift.opening import Opener
from pipeline.drift.sides import Shared
from pipeline.errors import UsageError, system_trouble
from pipeline.oci.references import parse_reference
from pipeline.progress import progress_on
from pipeline.report import json
from pipeline.report.drift import write_comparison, write_history
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
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the report")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there")
    level = parser.add_mutually_exclusive_group()
    level.add_argument("-v", "--verbose", action="store_true", help="every file, label and package")
    level.add_argument("-q", "--quiet", action="store_true", help="no report: the exit status only")


def run(args: argparse.Namespace) -> int:
    """Compare; 1 when a finding is an error, otherwise 0."""
    with progress_on(sys.stderr, quiet=args.quiet) as progress, collector_paused():
        cache = default_cache()
        opener = Opener(
            Path.cwd(), cache, args.line or "", args.base, Shared(cache), progress=progress
        )
        result = _result(args, opener)
    if args.output:
        try:
            with args.output.open("w", encoding="utf-8", newline="\n") as file:
                _write(result, args, file)
        except OSError as error:
            raise system_trouble(error, f"{args.output} cannot be written") from error
    elif not args.quiet:
        _write(result, args, sys.stdout)
    return 1 if result.worst == ERROR else 0


def _result(args: argparse.Namespace, opener: Opener) -> Comparison | History:
    if args.tags is not None:
        if args.subjects:
            raise UsageError("--tags takes no subjects", hint="drift --tags REPOSITORY")
        return tags_history(parse_reference(args.tags.removeprefix("docker://")), opener)
    if not args.subjects and args.line is not None:
        return line_history(opener)
    if len(args.subjects) != 2:
        raise UsageError(
            f"drift compares two subjects, and {len(args.subjects)} are given",
            hint='drift A B; or a matrix: drift --line "", drift --tags REPOSITORY',
        )
    before = opener.open(args.subjects[0])
    return compare(before, opener.open(args.subjects[1], [before]))


def _write(result: Comparison | History, args: argparse.Namespace, out: TextIO) -> None:
    if args.format == "json":
        out.write(json.render(result.to_document()))
    elif isinstance(result, Comparison):
        write_comparison(result, out, verbose=args.verbose)
    else:
        write_history(result, out, verbose=args.verbose)

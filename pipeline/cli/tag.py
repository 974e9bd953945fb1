"""`tag`: the gate, then the tags of a pushed image. stdout is one line a tag."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.chain import BASES
from pipeline.errors import UsageError
from pipeline.oci.references import parse_reference, parse_repository
from pipeline.oci.registry.client import Repository
from pipeline.project import Project
from pipeline.release.candidate import load_candidate
from pipeline.release.evidence import read_documents
from pipeline.release.record import Evidence
from pipeline.release.tagging import STATE, folder_of, tag_candidate
from pipeline.standing import DIST


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = (
        "example: sm121-chain tag v8 registry.example.org/me/chain --smoke smoke.json"
        " --move --from sha256:…"
    )
    parser.add_argument("stage", metavar="STAGE", help="a stage in dist/, pushed before")
    parser.add_argument("repository", metavar="REPOSITORY", help="where it is: HOST/NAME, no tag")
    evidence = parser.add_mutually_exclusive_group(required=True)
    evidence.add_argument(
        "--smoke",
        type=Path,
        nargs="+",
        metavar="REPORT",
        help="reports of `smoke` that prove this image; several are judged together",
    )
    evidence.add_argument(
        "--without-smoke",
        metavar="REASON",
        help="write <tag>-unproven-<12 hex> and nothing else; the reason goes to the record",
    )
    add_move_arguments(parser)
    parser.add_argument(
        "--dist", type=Path, default=DIST, metavar="DIR", help="what was built (default: dist)"
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("-q", "--quiet", action="store_true", help="the tags only")


def add_move_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how a tag moves and where the record goes; `release` takes the same."""
    parser.add_argument(
        "--move", action="store_true", help="let <tag> leave the digest that --from names"
    )
    parser.add_argument(
        "--from", dest="move_from", default="", metavar="DIGEST", help="what <tag> names now"
    )
    parser.add_argument(
        "--state",
        type=Path,
        default=STATE,
        metavar="DIR",
        help=f"where records and reports of releases lie (default: {STATE})",
    )


def move_from(args: argparse.Namespace, repository: str) -> str:
    """Return the digest that the tag may leave, "" for none. Raises UsageError."""
    if bool(args.move_from) != args.move:
        raise UsageError(
            "--move and --from belong together",
            hint="--move --from sha256:…, the digest that the tag names now",
        )
    if args.move_from:
        parse_reference(f"{repository}@{args.move_from}")
    return str(args.move_from)


def run(args: argparse.Namespace) -> int:
    """Judge, then write `<tag>-<12 hex>` and `<tag>`, or the unproven tag alone."""
    target = parse_repository(args.repository)
    leave = move_from(args, args.repository)
    reason = args.without_smoke
    if reason is not None and not any(one.isprintable() and one != " " for one in reason):
        raise UsageError("--without-smoke needs a reason", hint="say why it cannot be proven")
    if reason is not None and leave:
        raise UsageError("without a smoke run no tag is moved", hint="leave --move --from away")
    evidence = Evidence(read_documents(args.smoke or []), reason or "")
    candidate = load_candidate(Project(Path.cwd(), args.line), args.base, args.stage, args.dist)

    def tell(line: str) -> None:
        if not args.quiet:
            print(line, file=sys.stderr)

    folder = folder_of(args.state, candidate, unproven=bool(reason))
    references = tag_candidate(
        candidate,
        Repository(target, push=True),
        evidence,
        folder,
        move_from=leave,
        previous=leave,
        tell=tell,
    )
    tell(f"record: {folder}/record.json, record.md")
    for reference in references:
        print(f"{reference} {candidate.image.digest}")
    return 0

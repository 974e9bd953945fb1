"""`fingerprint`: the identity of images' content, one line each on stdout."""

from __future__ import annotations

import argparse
import sys

from pipeline.chain import BASES
from pipeline.standing import standing_subject
from pipeline.subjects import identify_subject, parse_subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain fingerprint v8 docker://registry.example.org/me/chain:v8"
    parser.add_argument(
        "subjects",
        nargs="+",
        metavar="SUBJECT",
        help="oci:DIR[:TAG], docker-archive:FILE[:TAG], docker://REF, or a stage in dist/",
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("-v", "--verbose", action="store_true", help="the other ids, with kinds")


def run(args: argparse.Namespace) -> int:
    """Print `SUBJECT sha256:…` for each subject."""
    for text in args.subjects:
        subject = standing_subject(parse_subject(text), args.line, args.base)
        identity = identify_subject(subject)
        print(f"{text} {identity.fingerprint}", flush=True)
        if args.verbose:
            for line in identity.lines()[1:]:
                print(f"  {line}", file=sys.stderr)
    return 0

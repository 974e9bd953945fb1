"""`patches check`: what releases, or a tree, do to the patches."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pipeline.cli.patches import targets
from pipeline.cli.patches.common import add_patch_arguments, add_python, select
from pipeline.cli.patches.targets import Targets
from pipeline.errors import UsageError
from pipeline.patching.loading import load_patches
from pipeline.patching.survey import survey
from pipeline.patching.verdicts import State, Survey
from pipeline.report import json
from pipeline.report.patches import survey_json, write_text
from pipeline.report.patches_markdown import write_markdown

if TYPE_CHECKING:
    from pipeline.cli.patches.common import Actions


def add_arguments(actions: Actions) -> None:
    """Declare what `check` takes."""
    parser = actions.add_parser(
        "check",
        help="what releases do to the patches, edit by edit",
        description="Says per edit whether it applies, is upstream, has moved, has drifted or is"
        " gone, and proposes what would fit. A patch that no variant names the release for is asked"
        " as if its nearest variant did. Every patch is asked by itself; `apply` also asks whether"
        " they fit together. Writes nothing. Exit status 1 when a patch that is still needed does"
        " not fit, or has no variant for the release.",
    )
    targets.add_arguments(parser, several=True)
    add_python(parser, "the tree's, or the base's")
    add_patch_arguments(parser)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text")


def run(args: argparse.Namespace) -> int:
    """Prints the report; 1 when something that is still needed does not fit. Raises ChainError."""
    patches = select(args)
    if args.root is None and not args.against:
        raise UsageError("nothing to check against", hint="give --against or --root")
    others = load_patches(args.patches).values()
    opened = Targets.of(args)
    surveys: list[Survey] = []
    if args.root is not None:
        surveys.append(survey(patches, opened.tree(args.root, patches), opened.origin, others))
    for against in args.against:
        source, name = opened.wheel(against)
        asked = [patch for patch in patches if patch.distribution == name]
        surveys.append(survey(asked, source, opened.origin, others))
    asked_for = {report.patch.name for one in surveys for report in one.patches}
    if not asked_for:
        raise UsageError(f"no patch among these is for {', '.join(s.name for s in surveys)}")
    for patch in patches:
        if patch.name not in asked_for:
            print(f"{patch.name}: not checked, it is for {patch.distribution}", file=sys.stderr)
    if args.format == "json":
        sys.stdout.write(json.render({"surveys": [survey_json(one) for one in surveys]}))
    elif args.format == "markdown":
        write_markdown(surveys, sys.stdout)
    else:
        write_text(surveys, sys.stdout)
    for one in surveys:
        print(_verdict(one), file=sys.stderr)
    return 0 if all(one.fits for one in surveys) else 1


def _verdict(one: Survey) -> str:
    failed = [
        report
        for report in one.patches
        if report.state in (State.NEEDS_VARIANT, State.DOES_NOT_FIT)
    ]
    if not failed:
        return f"every patch is fine with {one.name}"
    wanting = sum(report.state is State.NEEDS_VARIANT for report in failed)
    tail = f"; {wanting} of them only lack a variant for it" if wanting else ""
    return f"{len(failed)} of {len(one.patches)} patches do not fit {one.name}{tail}"

"""`patches port`: writes what `check` proposes as new variants."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pipeline.cli.patches import targets
from pipeline.cli.patches.common import add_patch_arguments, add_python, select
from pipeline.cli.patches.targets import Targets
from pipeline.errors import UsageError
from pipeline.patching.loading import load_patches
from pipeline.patching.port import Ported, append, port
from pipeline.patching.survey import survey

if TYPE_CHECKING:
    from pipeline.cli.patches.common import Actions


def add_arguments(actions: Actions) -> None:
    """Declare what `port` takes."""
    parser = actions.add_parser(
        "port",
        help="write what `check` proposes as new variants",
        description="Puts a variant for the release at the end of each patch's file; what stands"
        " there stays. A variant is written only when every edit of it fits the release. Exit"
        " status 1 when a patch that needs one gets none.",
    )
    targets.add_arguments(parser, several=False)
    add_python(parser, "the tree's, or the base's")
    add_patch_arguments(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the variants, write nothing")


def run(args: argparse.Namespace) -> int:
    """Writes the variants; 1 when a patch that needs one gets none. Raises ChainError."""
    if len(args.against) + (args.root is not None) != 1:
        raise UsageError("a variant is for one release", hint="give one --against, or --root")
    patches = select(args)
    others = load_patches(args.patches).values()
    opened = Targets.of(args)
    if args.root is not None:
        source = opened.tree(args.root, patches)
    else:
        source, name = opened.wheel(args.against[0])
        patches = [patch for patch in patches if patch.distribution == name]
        if not patches:
            raise UsageError(f"no patch among these is for {name}")
    done = []
    for report in survey(patches, source, opened.origin, others).patches:
        path = args.patches / f"{report.patch.name}.toml"
        ported = port(report, source, path)
        if ported.text and args.dry_run:
            print(f"# {path}{ported.text}")
        elif ported.text:
            append(path, ported.text)
        done.append(ported)
    for ported in done:
        for line in _said(ported, args.dry_run):
            print(line, file=sys.stderr if args.dry_run else sys.stdout)
    return 1 if any(ported.problem for ported in done) else 0


def _said(ported: Ported, dry: bool) -> list[str]:
    report = ported.report
    name = report.patch.name
    if ported.problem:
        return [f"{name}: not ported: {ported.problem}"]
    if not ported.text:
        return [f"{name}: {report.state}, nothing to port"]
    lines = [f"{name}: {'would be ' if dry else ''}ported, and it fits"]
    for edit in report.edits:
        changes = edit.proposal.changes if edit.proposal else ()
        lines += [f"  {edit.edit.id}  {change}" for change in changes]
    return [*lines, *(f"  READ {edit}: {why}" for edit, why in ported.read)]

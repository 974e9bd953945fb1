"""`patches apply`: puts patches into an unpacked tree, all or nothing."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pipeline.cli.patches.common import (
    add_patch_arguments,
    add_python,
    console,
    print_json,
    print_table,
    select,
    table,
)
from pipeline.patching.apply import Application, apply_patches
from pipeline.patching.outcomes import EditResult, Outcome, PatchResult
from pipeline.patching.sources import open_tree

if TYPE_CHECKING:
    from pipeline.cli.patches.common import Actions

_COLOURS = {Outcome.ALREADY_APPLIED: "cyan", Outcome.UPSTREAM: "cyan"}


def add_arguments(actions: Actions) -> None:
    """Declare what `apply` takes."""
    parser = actions.add_parser(
        "apply",
        help="put patches into an unpacked tree, all or nothing",
        description="Applies the patches in the order given. Exit status 0 also when all of them"
        " are applied already: the tree is then as asked for, and nothing is written.",
    )
    parser.add_argument("--root", type=Path, required=True, metavar="DIR", help="the tree")
    add_python(parser, "the tree's")
    add_patch_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Applies the patches; 1 when one does not fit. Raises ChainError."""
    patches = select(args)
    tree = open_tree(args.root, {patch.distribution for patch in patches}, args.python)
    done = apply_patches(patches, tree)
    if args.format == "json":
        print_json(_json(done, str(tree.site), tree.python))
    else:
        _print(done.evaluation.patches)
        for path in done.unowned:
            print(f"{path}: no RECORD lists this file", file=sys.stderr)
    print(_verdict(done, str(tree.site)), file=sys.stderr)
    return 0 if done.evaluation.fits else 1


def _json(done: Application, name: str, python: str) -> dict[str, Any]:
    evaluation = done.evaluation
    return {
        "subject": name,
        "python": python,
        "fits": evaluation.fits,
        "patches": [dataclasses.asdict(patch) for patch in evaluation.patches],
        "files": [
            {"path": image.path, "before": image.before, "after": image.after}
            for image in evaluation.files.values()
        ],
        "removed": list(done.removed),
        "unowned": list(done.unowned),
    }


def _verdict(done: Application, name: str) -> str:
    evaluation = done.evaluation
    failed = sum(patch.outcome.is_failure for patch in evaluation.patches)
    if failed:
        count = len(evaluation.patches)
        return f"{failed} of {count} patches do not fit {name}; nothing was written"
    if evaluation.files:
        return f"{len(evaluation.files)} files written in {name}"
    return f"nothing to write in {name}"


def _print(patches: Iterable[PatchResult]) -> None:
    out = console()
    for patch in patches:
        head = (patch.name, _coloured(patch.outcome), patch.variant, escape(patch.message))
        out.print("  ".join(part for part in head if part))
        rows = table(["edit", "file", "within", "outcome", "detail"])
        for edit in patch.edits:
            row = (edit.edit, edit.file, edit.within or "")
            rows.add_row(*map(escape, row), _coloured(edit.outcome), escape(_detail(edit)))
        if patch.edits:
            print_table(rows)


def _detail(edit: EditResult) -> str:
    parts = [edit.message, *edit.hints, edit.note]
    if edit.outcome is Outcome.ANCHOR_AMBIGUOUS or not edit.outcome.is_failure:
        lines = ", ".join(map(str, edit.lines))
        parts.append(f"line{'s' if len(edit.lines) > 1 else ''} {lines}" if lines else "")
    return "; ".join(part for part in parts if part)


def _coloured(outcome: Outcome) -> str:
    colour = "red" if outcome.is_failure else _COLOURS.get(outcome, "green")
    return f"[{colour}]{outcome.value}[/{colour}]"

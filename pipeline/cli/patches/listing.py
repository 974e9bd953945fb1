"""`patches list`: the patches, their variants and their edits."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from pipeline.cli.patches.common import (
    add_patch_arguments,
    console,
    print_json,
    print_table,
    select,
    table,
)
from pipeline.patching.model import Patch

if TYPE_CHECKING:
    from pipeline.cli.patches.common import Actions


def add_arguments(actions: Actions) -> None:
    """Declare what `list` takes."""
    parser = actions.add_parser("list", help="the patches, their variants and their edits")
    add_patch_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace) -> int:
    """Prints the patches; always 0."""
    patches = select(args)
    if args.format == "json":
        print_json([_listed(patch) for patch in patches])
        return 0
    rows = table(["patch", "for", "edit", "file", "within"])
    for patch in patches:
        for variant in patch.variants:
            label = variant.label + (" (unverified)" if variant.unverified else "")
            for edit in variant.edits:
                row = (patch.name, label, edit.id, edit.file, edit.within or "")
                rows.add_row(*map(escape, row))
            if variant.not_needed:
                rows.add_row(*map(escape, (patch.name, label, "not needed", "", "")))
            for test in variant.upstream if not variant.edits else ():
                row = (patch.name, label, "upstream", test.file, test.within or "")
                rows.add_row(*map(escape, row))
    print_table(rows)
    for patch in patches:
        for variant in patch.variants:
            said = {"unverified": variant.unverified, "not needed": variant.not_needed}
            for word, why in said.items():
                if why:
                    console().print(escape(f"{patch.name} for {variant.label}: {word}: {why}"))
    return 0


def _listed(patch: Patch) -> dict[str, Any]:
    variants = [
        {
            "for": variant.label,
            "unverified": variant.unverified,
            "not_needed": variant.not_needed,
            "upstream": [dataclasses.asdict(test) for test in variant.upstream],
            "edits": [dataclasses.asdict(edit) for edit in variant.edits],
        }
        for variant in patch.variants
    ]
    head = {"name": patch.name, "title": patch.title, "why": patch.why, "upstream": patch.upstream}
    return head | {"distribution": patch.distribution, "variants": variants}

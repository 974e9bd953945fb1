"""`patches list | check | apply`: what patches there are, whether they fit, and putting them in."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipeline.errors import UsageError
from pipeline.patching.apply import Application, apply_patches
from pipeline.patching.evaluate import evaluate
from pipeline.patching.loading import load_patches
from pipeline.patching.model import Patch
from pipeline.patching.outcomes import EditResult, Evaluation, Outcome, PatchResult
from pipeline.patching.sources import Source, open_tree, open_wheel

FindWheel = Callable[[str, Version], Path]
"""The locked wheel of a distribution (canonical name) at a version. Raises UsageError."""

_WHEEL_PYTHON = "3.11"  # the Python of the base `wheels`, on which most are installed

_COLOURS = {Outcome.ALREADY_APPLIED: "cyan", Outcome.UPSTREAM: "cyan"}


def no_wheel(name: str, version: Version) -> Path:
    """Stands in where no lock is at hand: no wheel is known."""
    raise UsageError(f"{name} {version} is not at hand", hint="give the wheel file itself")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb and of its subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|check|apply")
    listing = actions.add_parser("list", help="the patches, their variants and their edits")
    check = actions.add_parser(
        "check",
        help="whether edits fit, each patch by itself",
        description="Says per edit whether it fits. Every patch is asked by itself; `apply` also"
        " asks whether they fit together. Writes nothing. Exit status 1 when an edit does not fit.",
    )
    target = check.add_mutually_exclusive_group(required=True)
    target.add_argument("--root", type=Path, metavar="DIR", help="an unpacked tree or environment")
    target.add_argument(
        "--against", metavar="DIST==VERSION|WHEEL", help="a locked wheel, or a wheel file"
    )
    apply = actions.add_parser(
        "apply",
        help="put patches into an unpacked tree, all or nothing",
        description="Applies the patches in the order given. Exit status 0 also when all of them"
        " are applied already: the tree is then as asked for, and nothing is written.",
    )
    apply.add_argument("--root", type=Path, required=True, metavar="DIR", help="the tree")
    for action in (check, apply):
        action.add_argument(
            "--python", metavar="3.N", help="the Python to judge syntax for (default: the tree's)"
        )
    for action in (listing, check, apply):
        action.add_argument("names", nargs="*", metavar="PATCH", help="default: all, by name")
        action.add_argument(
            "--patches", type=Path, default=Path("patches"), metavar="DIR", help="where they are"
        )
        action.add_argument("--format", choices=("text", "json"), default="text")


def run(args: argparse.Namespace, find_wheel: FindWheel = no_wheel) -> int:
    """Runs the verb; the exit status is 1 when an edit does not fit. Raises ChainError."""
    patches = _select(load_patches(args.patches), args.names)
    if args.action == "list":
        return _list(patches, args.format)
    if args.action == "apply":
        return _apply(patches, args)
    return _check(patches, args, find_wheel)


def _select(patches: dict[str, Patch], names: Sequence[str]) -> list[Patch]:
    unknown = [name for name in names if name not in patches]
    if unknown:
        raise UsageError(
            f"no patch is called {', '.join(unknown)}", hint=f"there are {', '.join(patches)}"
        )
    return [patches[name] for name in names or patches]


def _list(patches: Sequence[Patch], form: str) -> int:
    if form == "json":
        _print_json([_listed(patch) for patch in patches])
        return 0
    table = _table("patch", "for", "edit", "file", "within")
    for patch in patches:
        for variant in patch.variants:
            for edit in variant.edits:
                row = (patch.name, variant.label, edit.id, edit.file, edit.within or "")
                table.add_row(*map(escape, row))
    _console().print(table)
    return 0


def _listed(patch: Patch) -> dict[str, Any]:
    variants = [
        {"for": v.label, "edits": [dataclasses.asdict(e) for e in v.edits]} for v in patch.variants
    ]
    head = {"name": patch.name, "title": patch.title, "why": patch.why, "upstream": patch.upstream}
    return head | {"distribution": patch.distribution, "variants": variants}


def _check(patches: Sequence[Patch], args: argparse.Namespace, find_wheel: FindWheel) -> int:
    if args.root is not None:
        names = {patch.distribution for patch in patches}
        source = open_tree(args.root, names, args.python).source()
    else:
        source, name = _wheel(args.against, args.python or _WHEEL_PYTHON, find_wheel)
        others = [patch for patch in patches if patch.distribution != name]
        patches = [patch for patch in patches if patch.distribution == name]
        for patch in others:
            print(f"{patch.name}: not checked, it is for {patch.distribution}", file=sys.stderr)
        if not patches:
            raise UsageError(f"no patch among these is for {name}")
    # each by itself: patches of different stages meet different trees in a build
    results = [
        evaluate([patch], source.read, source.versions, source.python, source.candidates)
        for patch in patches
    ]
    evaluation = Evaluation(tuple(patch for result in results for patch in result.patches))
    return _report(evaluation, source, args.format, made=False)


def _wheel(against: str, python: str, find_wheel: FindWheel) -> tuple[Source, str]:
    if against.endswith(".whl"):
        return open_wheel(Path(against), python)
    name, _, version = against.partition("==")
    try:
        path = find_wheel(canonicalize_name(name, validate=True), Version(version))
    except (InvalidVersion, ValueError) as error:
        raise UsageError(
            f"{against!r} is neither a wheel file nor DIST==VERSION", hint="as in vllm==0.30.0"
        ) from error
    return open_wheel(path, python)


def _apply(patches: Sequence[Patch], args: argparse.Namespace) -> int:
    tree = open_tree(args.root, {patch.distribution for patch in patches}, args.python)
    done = apply_patches(patches, tree)
    return _report(done.evaluation, tree.source(), args.format, made=True, done=done)


def _report(
    evaluation: Evaluation,
    source: Source,
    form: str,
    *,
    made: bool,
    done: Application | None = None,
) -> int:
    if form == "json":
        _print_json(
            {
                "subject": source.name,
                "python": source.python,
                "fits": evaluation.fits,
                "patches": [_patch_json(patch, made) for patch in evaluation.patches],
                "files": [
                    {"path": image.path, "before": image.before, "after": image.after}
                    for image in evaluation.files.values()
                ],
                "removed": list(done.removed if done else ()),
                "unowned": list(done.unowned if done else ()),
            }
        )
    else:
        _print_text(evaluation.patches, made)
        for path in done.unowned if done else ():
            print(f"{path}: no RECORD lists this file", file=sys.stderr)
    print(_verdict(evaluation, source, made), file=sys.stderr)
    return 0 if evaluation.fits else 1


def _verdict(evaluation: Evaluation, source: Source, made: bool) -> str:
    failed = sum(patch.outcome.is_failure for patch in evaluation.patches)
    if failed:
        tail = "; nothing was written" if made else ""
        return f"{failed} of {len(evaluation.patches)} patches do not fit {source.name}{tail}"
    if made and evaluation.files:
        return f"{len(evaluation.files)} files written in {source.name}"
    if made:
        return f"nothing to write in {source.name}"
    return f"every patch is fine with {source.name}"


def _shown(outcome: Outcome, made: bool) -> str:
    """The word for an outcome: before anything is written no line says `applied`."""
    return (outcome if made or outcome is not Outcome.APPLIED else Outcome.FITS).value


def _patch_json(patch: PatchResult, made: bool) -> dict[str, Any]:
    data = dataclasses.asdict(patch) | {"outcome": _shown(patch.outcome, made)}
    data["edits"] = [
        dataclasses.asdict(edit) | {"outcome": _shown(edit.outcome, made)} for edit in patch.edits
    ]
    return data


def _print_text(patches: Iterable[PatchResult], made: bool) -> None:
    console = _console()
    for patch in patches:
        head = (patch.name, _coloured(patch.outcome, made), patch.variant, escape(patch.message))
        console.print("  ".join(part for part in head if part))
        table = _table("edit", "file", "within", "outcome", "detail")
        for edit in patch.edits:
            outcome = _coloured(edit.outcome, made)
            row = (edit.edit, edit.file, edit.within or "")
            table.add_row(*map(escape, row), outcome, escape(_detail(edit)))
        if patch.edits:
            console.print(table)


def _detail(edit: EditResult) -> str:
    parts = [edit.message, *edit.hints, edit.note]
    if edit.outcome is Outcome.ANCHOR_AMBIGUOUS or not edit.outcome.is_failure:
        lines = ", ".join(map(str, edit.lines))
        parts.append(f"line{'s' if len(edit.lines) > 1 else ''} {lines}" if lines else "")
    return "; ".join(part for part in parts if part)


def _coloured(outcome: Outcome, made: bool) -> str:
    colour = "red" if outcome.is_failure else _COLOURS.get(outcome, "green")
    return f"[{colour}]{_shown(outcome, made)}[/{colour}]"


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for column in table.columns:
        column.overflow = "fold"
    return table


def _console() -> Console:
    """Stdout; outside of a terminal without colours, and never wrapped."""
    width = None if sys.stdout.isatty() else 10_000
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def _print_json(data: object) -> None:
    print(json.dumps(data, indent=2))

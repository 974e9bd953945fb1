"""What the subcommands share: arguments, the choice of patches, tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from pipeline.errors import UsageError
from pipeline.patching.loading import load_patches
from pipeline.patching.model import Patch

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]


def add_patch_arguments(parser: argparse.ArgumentParser) -> None:
    """Which patches, and where they are."""
    parser.add_argument("names", nargs="*", metavar="PATCH", help="default: all, by name")
    parser.add_argument(
        "--patches", type=Path, default=Path("patches"), metavar="DIR", help="where they are"
    )


def add_python(parser: argparse.ArgumentParser, default: str) -> None:
    """For which Python edited files must parse; `default` says what holds without it."""
    parser.add_argument(
        "--python", metavar="3.N", help=f"the Python to judge syntax for (default: {default})"
    )


def select(args: argparse.Namespace) -> list[Patch]:
    """The patches that were asked for. Raises UsageError for unknown names, FaultyFile."""
    patches = load_patches(args.patches)
    unknown = [name for name in args.names if name not in patches]
    if unknown:
        raise UsageError(
            f"no patch is called {', '.join(unknown)}", hint=f"there are {', '.join(patches)}"
        )
    return [patches[name] for name in args.names or patches]


def table(columns: Sequence[str]) -> Table:
    """An empty table without lines, that folds long words."""
    made = Table(*columns, box=None, pad_edge=False, padding=(0, 2, 0, 2))
    for column in made.columns:
        column.overflow = "fold"
    return made


def console() -> Console:
    """Stdout; outside of a terminal without colours, and never wrapped."""
    width = None if sys.stdout.isatty() else 10_000
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=False)


def print_table(rows: Table) -> None:
    """Prints a table; its last column is not padded, which no reader sees and every diff does."""
    out = console()
    with out.capture() as captured:
        out.print(rows)
    for line in captured.get().splitlines():
        print(line.rstrip())


def print_json(data: object) -> None:
    """A document on stdout."""
    print(json.dumps(data, indent=2))

"""`doctor`: what this machine can do. One line each on stdout."""

from __future__ import annotations

import argparse
import os

from pipeline.doctor import engines, tools
from pipeline.errors import OutsideTrouble
from pipeline.wheels.house import default_cache

_EXAMPLE = """\
example:
  _EXPERIMENTAL_DAGGER_RUNNER_HOST=ssh://builder sm121-chain doctor
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLE
    parser.add_argument(
        "--no-connect", action="store_true", help="ask no Dagger engine for a session"
    )


def run(args: argparse.Namespace) -> int:
    """Print what was found; status 3 when the engine that `build` would take cannot be used."""
    checks = engines(default_cache(), os.environ, connect=not args.no_connect)
    for check in (*checks, *tools()):
        print(f"{'ok' if check.usable else 'no':<3} {check.subject:<14} {check.found}")
        if check.fix:
            print(f"    {'':<14} next: {check.fix}")
    first = checks[0]
    return 0 if first.usable else OutsideTrouble.exit_status

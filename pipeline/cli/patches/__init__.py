"""`patches`: what patches there are, whether they fit a release, and writing them."""

from __future__ import annotations

import argparse

from pipeline.cli.patches import apply, capture, check, listing, port

_ACTIONS = {
    "list": listing,
    "check": check,
    "apply": apply,
    "port": port,
    "capture": capture,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb and of its subcommands."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="|".join(_ACTIONS))
    for action in _ACTIONS.values():
        action.add_arguments(actions)


def run(args: argparse.Namespace) -> int:
    """Runs the subcommand and returns the exit status. Raises ChainError."""
    status: int = _ACTIONS[args.action].run(args)
    return status

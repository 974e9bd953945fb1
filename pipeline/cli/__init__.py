"""The command line: one module a verb, each with `add_arguments(parser)` and `run(args) -> int`.

Data goes to stdout, everything else to stderr. Exit status: 0 success, 1 a finding or a refusal,
2 usage or a faulty file of ours, 3 outside trouble, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from pipeline.errors import ChainError, OutsideTrouble

VERBS = {
    "build": "build the chain: base and stages as an OCI layout of arm64 images",
    "show": "what a build would do: parents, pins that move, patches, and why",
    "lock": "resolve, check, explain or export the lock",
    "fetch": "download every locked file into the cache, verified",
    "audit": "one image against the lock",
    "patches": "list, check, port, capture or apply the patches",
    "load": "an image into docker, podman or nerdctl, here or on a host",
    "compare": "one image on several hosts: the same everywhere?",
    "verify": "what is published against what the lock builds",
    "push": "an image into a repository, by digest; no tag",
    "fingerprint": "the identity of images: equal for equal content, whatever the packing",
}
INTERRUPTED = 130
_MOST_DETAILS = 60


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status. No error of a user ends in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # Names out of images, and our own arrows, on a terminal that has no letter for them.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in arguments if not word.startswith("-")), "")
    args = _parser(verb if verb in VERBS else "").parse_args(arguments)
    try:
        status: int = importlib.import_module(f"pipeline.cli.{args.verb}").run(args)
        sys.stdout.flush()
        return status
    except ChainError as error:
        _complain(error)
        return error.exit_status
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("[red]interrupted[/red]")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a disk or a permission that no module expected
        place = f"{error.filename}: " if error.filename else ""
        _complain(OutsideTrouble(f"{place}{error.strerror or error}"))
        return OutsideTrouble.exit_status
    except MemoryError:
        _complain(OutsideTrouble("out of memory", hint="try with --jobs 1"))
        return OutsideTrouble.exit_status


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sm121-chain",
        description="Reproducible build system for patched inference images on NVIDIA GB10.",
        epilog="exit status: 0 success, 1 a finding or a refusal, 2 usage or a faulty file of "
        "ours, 3 outside trouble, 130 interrupted",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text in VERBS.items():
        sub = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == verb:  # only the verb that is called pays for its imports
            importlib.import_module(f"pipeline.cli.{name}").add_arguments(sub)
    return parser


def _complain(error: ChainError) -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/bold red] {escape(error.message)}")
    for detail in error.details[:_MOST_DETAILS]:
        console.print(f"  {escape(detail)}")
    if len(error.details) > _MOST_DETAILS:
        console.print(f"  … and {len(error.details) - _MOST_DETAILS} more")
    if error.hint:
        console.print(f"[bold]next:[/bold] {escape(error.hint)}")

"""The command line: one module a verb, each with `add_arguments(parser)` and `run(args) -> int`.

Data goes to stdout, everything else to stderr. Exit status: 0 success, 1 a finding or a refusal,
2 usage or a faulty file of ours, 3 outside trouble, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from pipeline.errors import ChainError, OutsideTrouble, is_system_trouble, system_trouble

VERBS = {
    "build": "build the chain: base and stages as an OCI layout of arm64 images",
    "show": "what a build would do: parents, pins that move, patches, and why",
    "lock": "resolve, check, explain or export the lock",
    "fetch": "download every locked file into the cache, verified",
    "audit": "one image against the lock",
    "drift": "what moved between two images, or along a whole line",
    "patches": "list, check, port, capture or apply the patches",
    "load": "an image into docker, podman or nerdctl, here or on a host",
    "compare": "one image on several hosts: the same everywhere?",
    "verify": "what is published against what the lock builds",
    "push": "an image into a repository, by digest; no tag",
    "smoke": "the GPU probes in an image, on one or several hosts; writes a report",
    "tag": "the gate: tags for an image that a smoke report proves",
    "release": "build, audit, push, smoke, tag, verify, in that order; goes on where it stopped",
    "doctor": "what this machine can do: engines, and why not the others; programs that lack",
    "fingerprint": "the identity of images: equal for equal content, whatever the packing",
}
INTERRUPTED = 130
_MOST_DETAILS = 60
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status. No error of a user ends in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        # Names out of images, and our own arrows, on a terminal that has no letter for them.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    verb = next((word for word in arguments if not word.startswith("-")), "")
    _open_standard_streams()
    for number in _STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _interrupt)
    try:
        _check_directory()
        args = _parser(verb if verb in VERBS else "").parse_args(arguments)
        status: int = importlib.import_module(f"pipeline.cli.{args.verb}").run(args)
        sys.stdout.flush()
        return status
    except ChainError as error:
        _complain(error)
        return error.exit_status
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough. Python would complain once more at exit.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return OutsideTrouble.exit_status
    except (OSError, MemoryError, RuntimeError, ImportError) as error:
        if not is_system_trouble(error):
            raise
        trouble = system_trouble(error)
        _complain(trouble)
        return trouble.exit_status


def call(verb: str, *arguments: str) -> int:
    """Run a verb from within another one, as its own command line would; return its status.

    Raises what the verb raises.
    """
    args = _parser(verb).parse_args([verb, *arguments])
    status: int = importlib.import_module(f"pipeline.cli.{verb}").run(args)
    return status


def _check_directory() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise OutsideTrouble(
            f"the current directory cannot be used: {error.strerror}",
            hint="change to the project's directory",
        ) from error


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End in order at the first signal, at once at a second one."""
    for stop in _STOPS:
        signal.signal(stop, signal.SIG_DFL)
    raise KeyboardInterrupt


def _open_standard_streams() -> None:
    """Give each closed stream (`>&-`) the null device: a file of ours must not get its number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Streams for the whole life of the program.
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _parser(verb: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sm121-chain",
        description="Reproducible build system for patched inference images on NVIDIA GB10.",
        epilog="exit status: 0 success, 1 a finding or a refusal, 2 usage or a faulty file of "
        "ours, 3 outside trouble, 130 interrupted",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text in VERBS.items():
        sentence = text[0].upper() + text[1:] + ("" if text.endswith("?") else ".")
        sub = verbs.add_parser(name, help=text, description=sentence)
        if name == verb:  # only the verb that is called pays for its imports
            importlib.import_module(f"pipeline.cli.{name}").add_arguments(sub)
    return parser


def _complain(error: ChainError) -> None:
    # Not before it is needed: Ctrl-C during a long import would end in a traceback.
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    with contextlib.suppress(OSError):  # where stderr takes nothing, the exit status says it
        console.print(f"[bold red]error:[/bold red] {escape(error.message)}")
        for detail in error.details[:_MOST_DETAILS]:
            console.print(f"  {escape(detail)}")
        if len(error.details) > _MOST_DETAILS:
            console.print(f"  … and {len(error.details) - _MOST_DETAILS} more")
        console.print(f"[bold]next:[/bold] {escape(error.hint or error.usual_hint)}")

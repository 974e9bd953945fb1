"""What every probe of this folder shares: its command line, its numbers and its one line of JSON.

A probe calls `run(NAME, about, body)`. `body(probe, arguments)` measures, and calls
`probe.number()` with the limit that the number must keep. README.md has the contract. Standard
library only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED, ERROR = "passed", "failed", "skipped", "error"
STATUS = {PASSED: 0, FAILED: 1, SKIPPED: 2, ERROR: 2}
_STARTED = time.monotonic()


class CannotRun(Exception):
    """The probe cannot run here: no GPU, a package is missing. The message is the reason."""


class Skipped(Exception):
    """The probe is optional and was not asked for. The message is the reason."""


class Broken(Exception):
    """What is under test broke. The message is the reason."""


class Probe:
    """The result of one probe while it is made."""

    def __init__(self, name: str, plant: str = ""):
        self.name, self.plant = name, plant
        self.numbers: dict[str, float] = {}
        self.thresholds: dict[str, dict[str, float]] = {}
        self.facts: dict[str, str] = {}
        self.cases: list[dict[str, Any]] = []
        self.stand_ins: list[str] = []
        self.faults: list[str] = []

    def number(self, name: str, value: float, **limits: float) -> None:
        """Record a number, and what it must keep: `max=`, `min=`, `equals=`, or nothing."""
        if limits:
            self.thresholds[name] = limits
        if not math.isfinite(value):
            self.faults.append(f"{name} is not finite")
            return
        self.numbers[name] = value
        self.faults += [
            f"{name} is {value:.6g}, {told}"
            for told in broken(value, self.thresholds.get(name, {}))
        ]

    def case(self, name: str, **numbers: float) -> None:
        """Record and say one measurement. What is not finite is left out: a number tells of it."""
        finite = {key: value for key, value in numbers.items() if math.isfinite(value)}
        self.cases.append({"case": name, "numbers": finite})
        self.say(f"{name}: " + ", ".join(f"{k} {v:.5g}" for k, v in numbers.items()))

    def say(self, text: str) -> None:
        """Tell the reader how far it is."""
        print(f"{self.name}: {text}", file=sys.stderr, flush=True)

    def result(self, status: str, reason: str) -> dict[str, Any]:
        """Return the JSON object of the contract."""
        document: dict[str, Any] = {
            "probe": self.name,
            "status": status,
            "reason": reason,
            "numbers": self.numbers,
            "thresholds": self.thresholds,
            "facts": self.facts,
            "cases": self.cases,
            "seconds": round(time.monotonic() - _STARTED, 3),
        }
        if self.plant:
            document["plant"] = self.plant
        if self.stand_ins:
            document["stand_ins"] = self.stand_ins
        return document


def broken(value: float, limits: dict[str, float]) -> list[str]:
    """Return which of the limits a number does not keep, in words."""
    told = []
    if "max" in limits and not value <= limits["max"]:
        told.append(f"at most {limits['max']:.6g} is allowed")
    if "min" in limits and not value >= limits["min"]:
        told.append(f"at least {limits['min']:.6g} is wanted")
    if "equals" in limits and value != limits["equals"]:
        told.append(f"{limits['equals']:.6g} is wanted")
    return told


def capability(text: str) -> tuple[int, int]:
    """Read `12.1`. Raises ArgumentTypeError."""
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no capability such as 12.1")
    return int(major), int(minor)


def run(
    name: str,
    about: str,
    body: Callable[[Probe, argparse.Namespace], None],
    plants: dict[str, str] | None = None,
    options: Callable[[argparse.ArgumentParser], None] | None = None,
    arguments: Sequence[str] | None = None,
) -> int:
    """Run a probe as a program. `plants` maps a fault's name to what it does."""
    plants = plants or {}
    epilog = "planted faults, each of which must end with status 1:\n" + "\n".join(
        f"  {fault:<16} {text}" for fault, text in plants.items()
    )
    parser = argparse.ArgumentParser(
        prog=f"{name}.py",
        description=about,
        epilog=epilog if plants else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--capability",
        type=capability,
        default=(12, 1),
        metavar="M.N",
        help="of the GPU that is wanted (default 12.1)",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the JSON line here as well")
    if plants:
        parser.add_argument(
            "--plant", choices=plants, default="", help="with this fault; see below"
        )
    if options is not None:
        options(parser)
    given = parser.parse_args(arguments)

    # Libraries print to stdout, some from C: they get stderr, the result gets what stdout was.
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    probe = Probe(name, getattr(given, "plant", ""))
    status, reason = _outcome(probe, body, given)
    document = probe.result(status, reason)
    line = json.dumps(document, allow_nan=False) + "\n"
    probe.say(status + (f": {reason}" if reason else ""))
    sys.stdout.flush()
    with os.fdopen(stdout, "w", encoding="ascii") as out:
        out.write(line)
    return STATUS[status] if write_out(given.out, line) else STATUS[ERROR]


def write_out(file: Path | None, line: str) -> bool:
    """Write a result to the file of `--out`, if one is named; False, and told, if it cannot be."""
    try:
        if file is not None:
            file.write_text(line, encoding="ascii")
    except OSError as error:
        print(f"{file} cannot be written: {error.strerror}", file=sys.stderr, flush=True)
        return False
    return True


def _outcome(
    probe: Probe, body: Callable[[Probe, argparse.Namespace], None], given: argparse.Namespace
) -> tuple[str, str]:
    try:
        body(probe, given)
    except Skipped as skipped:
        return SKIPPED, str(skipped)
    except CannotRun as cannot:
        return ERROR, str(cannot)
    except Broken as fault:
        return FAILED, str(fault)
    except Exception as error:  # noqa: BLE001 - what the code under test raises is its failure
        traceback.print_exc()
        first = (str(error).strip().splitlines() or [""])[0]
        return FAILED, f"{type(error).__name__}: {first}"[:500]
    if probe.faults:
        return FAILED, "; ".join(probe.faults)[:1000]
    if not probe.thresholds:
        return ERROR, "nothing was asserted"
    return PASSED, ""


def gpu(probe: Probe, wanted: tuple[int, int]) -> Any:
    """Return torch with a GPU, and assert its capability. Raises CannotRun."""
    try:
        import torch
    except ImportError as error:
        raise CannotRun(f"torch cannot be imported: {error}") from None
    if not torch.cuda.is_available():
        raise CannotRun("torch sees no GPU")
    torch.cuda.init()
    major, minor = torch.cuda.get_device_capability(0)
    probe.facts["gpu"] = torch.cuda.get_device_name(0)
    probe.number("capability", 10 * major + minor, equals=10 * wanted[0] + wanted[1])
    # A reference in fp32 is one only without TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch

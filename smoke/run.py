"""Runs the probes inside an image and writes one JSON document: README.md has the contract.

A required probe that is missing, skipped, unknown, out of time, or not what it says it is, fails
the run, and so does the wrong GPU. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Not left to Python: with PYTHONSAFEPATH or -P the script's folder is not on its path.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from probe import PASSED, capability, write_out
from result import empty, ended, judged, parse

SCHEMA = "sm121-chain/smoke-run/1"
HERE = Path(__file__).resolve().parent
WORKSPACE = "FLASHINFER_WORKSPACE_BASE"
# Each probe, and the JIT modules that it needs.
PROBES: dict[str, tuple[str, ...]] = {
    "nope_mla": ("bf16",),
    "fa2_rows": ("bf16",),
    "fa2_fp8_kv": ("fp8",),
    "nccl_library": (),
    "cute_dsl": (),
    "pdl_gate": (),
    "indexer_fill": (),
    "topk_route": (),
    "server": (),
}
ENVIRONMENT_SECONDS, BUILD_SECONDS = 300, 900
TIMED_OUT, MISSING, UNKNOWN, NOT_RUN = "timed-out", "missing", "unknown", "not-run"


@dataclass
class Run:
    """A run while it is made."""

    folder: Path
    wanted: tuple[int, int]
    seconds: float
    child_environment: dict[str, str]
    problems: list[str] = field(default_factory=list)
    environment: dict[str, Any] = field(default_factory=dict)
    jit: dict[str, Any] = field(default_factory=dict)
    probes: list[dict[str, Any]] = field(default_factory=list)

    def child(self, arguments: Sequence[str], seconds: float) -> tuple[int | None, bytes]:
        """Run a script of the folder; return its status, None when out of time, and its stdout."""
        command = [sys.executable, str(self.folder / arguments[0]), *arguments[1:]]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=self.child_environment,
            start_new_session=True,  # so that what it starts ends with it
        )
        try:
            out, _ = process.communicate(timeout=seconds)
            return process.returncode, out
        except subprocess.TimeoutExpired:
            return None, b""
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def check_workspace(self, workspace: Path) -> None:
        """A JIT cache that was there before would be trusted by its mtimes: stale by definition."""
        held = next(
            (p for p in (workspace / ".cache" / "flashinfer").rglob("*") if p.is_file()), None
        )
        if held is not None:
            self.problems.append(f"the JIT workspace is not empty: {held}")

    def ask_environment(self) -> None:
        """Ask which GPU and which libraries there are."""
        status, out = self.child(["environment.py"], ENVIRONMENT_SECONDS)
        told = parse(out)
        if status != 0 or not isinstance(told, dict):
            self.problems.append(f"the environment cannot be asked: {ended(status)}")
            return
        self.environment = told
        if told.get("gpu") is None:
            self.problems.append("no GPU: " + str(told.get("torch_error") or "torch sees none"))
        elif told.get("capability") != list(self.wanted):
            found = ".".join(map(str, told.get("capability") or ["?"]))
            wanted = ".".join(map(str, self.wanted))
            self.problems.append(f"the GPU's capability is {found}, {wanted} is wanted")

    def build(self, kinds: list[str]) -> None:
        """Compile the JIT modules."""
        status, out = self.child(["build_jit.py", *kinds], BUILD_SECONDS)
        told = parse(out)
        if not isinstance(told, dict):
            told = {"reason": ended(status)}
        if status != 0 or told.get("reason"):
            why = told.get("reason") or ended(status)
            self.problems.append(f"the JIT modules could not be built: {why}")
        self.jit.update(modules=told.get("modules", []), seconds=told.get("seconds", 0))

    def probe(self, name: str) -> None:
        """Run one probe and judge its result."""
        started = time.monotonic()
        if name not in PROBES:
            result = empty(name, UNKNOWN, "there is no such probe")
        elif not (self.folder / f"{name}.py").is_file():
            result = empty(name, MISSING, f"{name}.py is not there")
        elif self.problems:
            result = empty(name, NOT_RUN, self.problems[0])
        else:
            wanted = ".".join(map(str, self.wanted))
            status, out = self.child([f"{name}.py", "--capability", wanted], self.seconds)
            if status is None:
                result = empty(name, TIMED_OUT, f"no result after {self.seconds:g} s")
            else:
                result = judged(name, status, out)
        result["seconds"] = round(time.monotonic() - started, 3)
        self.add(result)

    def add(self, result: dict[str, Any]) -> None:
        """Keep a result and say it."""
        self.probes.append(result)
        line = f"{result['status']:<10}{result['probe']:<14}{result['seconds']:7.1f} s"
        print(f"{line}  {result['reason']}".rstrip(), file=sys.stderr, flush=True)


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= threading.TIMEOUT_MAX:  # NaN neither
        raise argparse.ArgumentTypeError(f"{text!r} is no time for a probe")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    add = parser.add_argument
    add("--require", type=_names, required=True, metavar="PROBE,…", help="all of these must pass")
    add("--only", type=_names, metavar="PROBE,…", help="run these (default: those required)")
    add("--capability", type=capability, default=(12, 1), metavar="M.N", help="default 12.1")
    add(
        "--time-limit",
        type=_seconds,
        default=300,
        metavar="S",
        help="seconds a probe (default 300)",
    )
    add("--workspace", type=Path, metavar="DIR", help=f"empty; default ${WORKSPACE}, or a new one")
    add("--server", default="", metavar="URL", help="of a running vLLM, for the probe `server`")
    add("--out", type=Path, metavar="FILE", help="write the document here as well")
    add("--folder", type=Path, default=HERE, help=argparse.SUPPRESS)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, write the document, return 0 only for the verdict `passed`."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if not given.require:
        parser.error("--require names no probe")
    # A run that is stopped takes its children with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    started = int(time.time())
    kept = given.workspace or os.environ.get(WORKSPACE)
    with contextlib.ExitStack() as stack:
        if not kept:
            kept = stack.enter_context(tempfile.TemporaryDirectory(prefix="smoke-jit-"))
        environment = os.environ | {WORKSPACE: str(kept), "PYTHONUNBUFFERED": "1"}
        for name in ("PYTHONSAFEPATH", "PYTHONIOENCODING"):  # a probe imports probe.py beside it
            environment.pop(name, None)
        if given.server:
            environment["SMOKE_SERVER_URL"] = given.server
        run = Run(given.folder, given.capability, given.time_limit, environment)
        run.jit = {"workspace": str(kept), "modules": [], "seconds": 0}
        names = given.only if given.only is not None else given.require
        run.check_workspace(Path(kept))
        run.ask_environment()
        kinds = sorted({kind for name in names for kind in PROBES.get(name, ())})
        if kinds and not run.problems:
            run.build(kinds)
        for problem in run.problems:
            print(f"problem: {problem}", file=sys.stderr, flush=True)
        for name in names:
            run.probe(name)
        for name in given.require:
            if name not in names:
                run.add(empty(name, MISSING, "required, but not among --only"))
    passed = {result["probe"] for result in run.probes if result["status"] == PASSED}
    unknown = any(result["status"] == UNKNOWN for result in run.probes)
    failed = run.problems or unknown or not passed.issuperset(given.require)
    document = {
        "schema": SCHEMA,
        "verdict": "failed" if failed else "passed",
        "problems": run.problems,
        "required": given.require,
        "capability_required": list(given.capability),
        "started": started,
        "finished": int(time.time()),
        "environment": run.environment,
        "jit": run.jit,
        "probes": run.probes,
    }
    line = json.dumps(document, allow_nan=False) + "\n"
    sys.stdout.buffer.write(line.encode("ascii"))  # whatever PYTHONIOENCODING says
    sys.stdout.flush()
    print(f"verdict: {document['verdict']}", file=sys.stderr, flush=True)
    if not write_out(given.out, line):
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

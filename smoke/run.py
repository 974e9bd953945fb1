"""Runs the probes inside an image and writes one JSON document: README.md has the contract.

A required probe that is missing, skipped, unknown, out of time, or not what it says it is, fails
the run, and so does the wrong GPU. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from probe import PASSED, STATUS, broken, capability

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
        told = _json(out)
        if status != 0 or not isinstance(told, dict):
            self.problems.append(f"the environment cannot be asked: {_end(status)}")
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
        told = _json(out)
        if not isinstance(told, dict):
            told = {"reason": _end(status)}
        if status != 0 or told.get("reason"):
            why = told.get("reason") or _end(status)
            self.problems.append(f"the JIT modules could not be built: {why}")
        self.jit.update(modules=told.get("modules", []), seconds=told.get("seconds", 0))

    def probe(self, name: str) -> None:
        """Run one probe and judge its result."""
        started = time.monotonic()
        if name not in PROBES:
            result = _empty(name, UNKNOWN, "there is no such probe")
        elif not (self.folder / f"{name}.py").is_file():
            result = _empty(name, MISSING, f"{name}.py is not there")
        elif self.problems:
            result = _empty(name, NOT_RUN, self.problems[0])
        else:
            wanted = ".".join(map(str, self.wanted))
            status, out = self.child([f"{name}.py", "--capability", wanted], self.seconds)
            if status is None:
                result = _empty(name, TIMED_OUT, f"no result after {self.seconds:g} s")
            else:
                result = judged(name, status, out)
        result["seconds"] = round(time.monotonic() - started, 3)
        self.add(result)

    def add(self, result: dict[str, Any]) -> None:
        """Keep a result and say it."""
        self.probes.append(result)
        line = f"{result['status']:<10}{result['probe']:<14}{result['seconds']:7.1f} s"
        print(f"{line}  {result['reason']}".rstrip(), file=sys.stderr, flush=True)


def _json(data: bytes) -> Any:
    """Return the JSON value of the last line; None when it is none, or holds NaN."""
    lines = data.decode("utf-8", errors="replace").strip().splitlines()

    def refuse(text: str) -> float:
        raise ValueError(text)

    try:
        return json.loads(lines[-1], parse_constant=refuse) if lines else None
    except (ValueError, RecursionError):
        return None


def _end(status: int | None) -> str:
    if status is None:
        return "out of time"
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def _empty(name: str, status: str, reason: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"numbers": {}, "thresholds": {}, "facts": {}, "cases": []}
    return {"probe": name, "status": status, "reason": reason, **empty, "seconds": 0.0}


def judged(name: str, exit_status: int, out: bytes) -> dict[str, Any]:
    """Return a probe's result; one that is not what it says it is has failed."""
    told = _json(out)
    if not isinstance(told, dict):
        return _empty(name, "error", f"the last line is no JSON object ({_end(exit_status)})")
    faults = _shape(name, told)
    if faults:
        return _empty(name, "error", f"the result is not as promised: {faults[0]}")
    keys = ("probe", "status", "reason", "numbers", "thresholds", "facts", "cases", "seconds")
    optional = ("plant", "stand_ins")
    result = {key: told[key] for key in (*keys, *optional) if key in told}
    if told["status"] != PASSED:
        result["reason"] = told["reason"] or f"{told['status']}, without a reason"
        if exit_status != STATUS[told["status"]]:
            result["reason"] += f" ({_end(exit_status)})"
        return result
    doubts = [f"it ended with {_end(exit_status)}"] if exit_status else []
    doubts += [f"it ran with {key} {told[key]}" for key in optional if told.get(key)]
    if not told["thresholds"]:
        doubts.append("nothing was asserted")
    for key, limits in told["thresholds"].items():
        if key not in told["numbers"]:
            doubts.append(f"{key} was not measured")
        else:
            doubts += [f"{key}: {text}" for text in broken(told["numbers"][key], limits)]
    if doubts:
        result.update(status="failed", reason="it says passed, but " + "; ".join(doubts))
    return result


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _shape(name: str, told: dict[str, Any]) -> list[str]:
    """Return what of a result is not as README.md says."""
    kinds = {"numbers": dict, "thresholds": dict, "facts": dict, "cases": list, "reason": str}
    faults = [f"{key} is missing" for key in kinds if not isinstance(told.get(key), kinds[key])]
    if faults:
        return faults
    if told.get("probe") != name:
        faults.append(f"probe is {told.get('probe')!r}")
    if not isinstance(told.get("status"), str) or told["status"] not in STATUS:
        faults.append(f"status is {told.get('status')!r}")
    if not _number(told.get("seconds")):
        faults.append("seconds is no number")
    faults += [f"{k} is no finite number" for k, v in told["numbers"].items() if not _number(v)]
    for key, limits in told["thresholds"].items():
        known = isinstance(limits, dict) and limits and limits.keys() <= {"max", "min", "equals"}
        if not known or not all(map(_number, limits.values())):
            faults.append(f"the threshold of {key} is none")
    return faults


def _names(text: str) -> list[str]:
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__)
    add = parser.add_argument
    add("--require", type=_names, required=True, metavar="PROBE,…", help="all of these must pass")
    add("--only", type=_names, metavar="PROBE,…", help="run these (default: those required)")
    add("--capability", type=capability, default=(12, 1), metavar="M.N", help="default 12.1")
    add("--time-limit", type=float, default=300, metavar="S", help="seconds a probe (default 300)")
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
                run.add(_empty(name, MISSING, "required, but not among --only"))
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
    line = json.dumps(document, allow_nan=False, ensure_ascii=False) + "\n"
    if given.out is not None:
        given.out.write_text(line, encoding="utf-8")
    sys.stdout.write(line)
    print(f"verdict: {document['verdict']}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a probe said, read back and judged again: a result that is not what it says has failed.

Standard library only.
"""

from __future__ import annotations

import json
import math
from typing import Any

from probe import PASSED, STATUS, broken

LARGEST = 10**18


def parse(data: bytes) -> Any:
    """Return the JSON value of the last line; None when it is none, or holds NaN."""
    lines = data.decode("utf-8", errors="replace").strip().splitlines()

    def refuse(text: str) -> float:
        raise ValueError(text)

    def finite(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    try:
        if not lines:
            return None
        return json.loads(lines[-1], parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError):
        return None


def ended(status: int | None) -> str:
    """Say how a script ended; None is out of time."""
    if status is None:
        return "out of time"
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def empty(name: str, status: str, reason: str) -> dict[str, Any]:
    """Return a result without a measurement."""
    nothing: dict[str, Any] = {"numbers": {}, "thresholds": {}, "facts": {}, "cases": []}
    return {"probe": name, "status": status, "reason": reason, **nothing, "seconds": 0.0}


def judged(name: str, exit_status: int, out: bytes) -> dict[str, Any]:
    """Return a probe's result; one that is not what it says it is has failed."""
    told = parse(out)
    if not isinstance(told, dict):
        return empty(name, "error", f"the last line is no JSON object ({ended(exit_status)})")
    faults = shape_faults(name, told)
    if faults:
        return empty(name, "error", f"the result is not as promised: {faults[0]}")
    keys = ("probe", "status", "reason", "numbers", "thresholds", "facts", "cases", "seconds")
    optional = ("plant", "stand_ins")
    result = {key: told[key] for key in (*keys, *optional) if key in told}
    if told["status"] != PASSED:
        result["reason"] = told["reason"] or f"{told['status']}, without a reason"
        if exit_status != STATUS[told["status"]]:
            result["reason"] += f" ({ended(exit_status)})"
        return result
    doubts = [f"it ended with {ended(exit_status)}"] if exit_status else []
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
    """Whether it is a number that a measurement can be; an integer may have thousands of digits."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and -LARGEST <= value <= LARGEST


def _case(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("case"), str):
        return False
    numbers = value.get("numbers")
    return isinstance(numbers, dict) and all(map(_number, numbers.values()))


def shape_faults(name: str, told: dict[str, Any]) -> list[str]:
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
    faults += [f"case {n} is none" for n, case in enumerate(told["cases"]) if not _case(case)]
    faults += [f"fact {k} is no text" for k, v in told["facts"].items() if not isinstance(v, str)]
    if not isinstance(told.get("plant", ""), str):
        faults.append("plant is no text")
    stand_ins = told.get("stand_ins", [])
    if not isinstance(stand_ins, list) or not all(isinstance(one, str) for one in stand_ins):
        faults.append("stand_ins is no list of texts")
    for key, limits in told["thresholds"].items():
        known = isinstance(limits, dict) and limits and limits.keys() <= {"max", "min", "equals"}
        if not known or not all(map(_number, limits.values())):
            faults.append(f"the threshold of {key} is none")
    return faults

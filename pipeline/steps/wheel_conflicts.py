"""Step `wheel-conflicts`: which distribution of the base has to leave which path to another.

params: wheels [{name, version, filename, sha256}], target, known. Reads only the wheels' zip
directories and RECORDs. Facts: leave_out {distribution: {image path: reason}}. Only distributions
that a `known` file-conflict names have to leave anything: the layers of the others do not wait.
"""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name

from pipeline.errors import Refusal
from pipeline.steps.params import known_of, target_of, wheel_files
from pipeline.steps.program import Inputs, Result
from pipeline.wheels.conflicts import resolve_conflicts
from pipeline.wheels.known import FILE_CONFLICT
from pipeline.wheels.layer import plan_wheel


def run(inputs: Inputs, out: Path) -> Result:
    """Judge all wheels of the base at once. Raises Refusal with every conflict."""
    target, known = target_of(inputs), known_of(inputs)
    plans = [plan_wheel(wheel, target, known) for wheel in wheel_files(inputs, inputs.params)]
    leave_out = resolve_conflicts(plans, target, known=known)
    named = {canonicalize_name(one.distribution) for one in known if one.rule == FILE_CONFLICT}
    unnamed = [
        f"{name}: /{path}: {reason}"
        for name, paths in sorted(leave_out.items())
        if name not in named
        for path, reason in sorted(paths.items())
    ]
    if unnamed:
        raise Refusal(
            "file-conflict: known names the owner, but not all that have to leave it the path",
            details=unnamed,
            hint="add a known entry for each of these distributions, with the same path and owner",
        )
    return Result({"leave_out": leave_out})

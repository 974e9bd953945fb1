"""Step `wheel-conflicts`: which distribution of the base has to leave which path to another.

params: wheels [{name, version, filename, sha256}], target, known. Reads only the wheels' zip
directories and RECORDs. Facts: leave_out {distribution: {image path: reason}}.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.steps.params import known_of, target_of, wheel_files
from pipeline.steps.program import Inputs, Result
from pipeline.wheels.conflicts import resolve_conflicts
from pipeline.wheels.layer import plan_wheel


def run(inputs: Inputs, out: Path) -> Result:
    """Judge all wheels of the base at once. Raises Refusal with every conflict."""
    target, known = target_of(inputs), known_of(inputs)
    plans = [plan_wheel(wheel, target, known) for wheel in wheel_files(inputs, inputs.params)]
    return Result({"leave_out": resolve_conflicts(plans, target, known=known)})

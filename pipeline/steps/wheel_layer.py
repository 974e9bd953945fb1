"""Step `wheel-layer`: one layer of the base, made of wheels.

params: title, wheels [{name, version, filename, sha256}], target, known, epoch, level. Steps:
`wheel-conflicts`, if a `known` file-conflict names one of the wheels. Facts: layer, notes (what was
left out or accepted, with reasons).
"""

from __future__ import annotations

from pathlib import Path

from pipeline.steps.layers import BLOB, compressors, seal
from pipeline.steps.params import known_of, target_of, wheel_files
from pipeline.steps.program import Inputs, Result
from pipeline.steps.small import SmallFiles
from pipeline.wheels.layer import write_wheel_layer


def run(inputs: Inputs, out: Path) -> Result:
    """Install the wheels into a layer. Raises Refusal for a wheel that does not fit."""
    params = inputs.params
    leave_out = inputs.steps[0].facts["leave_out"] if inputs.steps else {}
    wheels = wheel_files(inputs, params, leave_out)
    small = SmallFiles()
    index, installed = write_wheel_layer(
        wheels,
        out / BLOB,
        target_of(inputs),
        epoch=params["epoch"],
        level=params["level"],
        threads=compressors(),
        known=known_of(inputs),
        seen=small.take,
    )
    small.write(index, out)
    notes = [f"{item.name}: {note}" for item in installed for note in item.notes]
    return seal(index, out, created_by=f"sm121-chain {params['title']}", notes=notes)

"""Step `stage-layer`: carry out a stage's order. Whiteouts first, then wheels, then single files.

params: title, target, known, epoch, level. Steps: the `stage` step. Facts: layer, notes.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.oci.layer import LayerWriter
from pipeline.steps.layers import BLOB, compressors, seal
from pipeline.steps.order import Order, content
from pipeline.steps.params import known_of, target_of
from pipeline.steps.program import Inputs, Result
from pipeline.steps.small import SmallFiles
from pipeline.wheels.install import install_wheel


def run(inputs: Inputs, out: Path) -> Result:
    """Write the layer. The order was verified, so what is refused here are damaged wheels."""
    params = inputs.params
    directory = inputs.steps[0].directory
    order = Order.read(directory)
    target, known = target_of(inputs), known_of(inputs)
    notes = []
    small = SmallFiles()
    with LayerWriter(
        out / BLOB,
        epoch=params["epoch"],
        level=params["level"],
        threads=compressors(),
        directory_mode=lambda path: order.directories.get(path, 0o755),
        seen=small.take,
    ) as writer:
        for path in order.whiteouts:
            writer.add_whiteout(path)
        for wheel in order.wheels:
            name = wheel["name"]
            overrides = order.overrides.get(name, {})
            installed = install_wheel(
                inputs.file(wheel["sha256"]),
                wheel["filename"],
                writer,
                target,
                known=known,
                leave_out=order.leave_out.get(name, {}),
                overrides={p: content(directory, sha256) for p, sha256 in overrides.items()},
            )
            notes += [f"{installed.name}: {note}" for note in installed.notes]
        for file in order.files:
            writer.add_file(file.path, content(directory, file.sha256), file.size, file.mode)
        index = writer.close()
    small.write(index, out)
    return seal(index, out, created_by=f"sm121-chain {params['title']}", notes=notes)

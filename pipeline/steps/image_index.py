"""Step `image-index`: look into a layer of a base image. The layer stays where and as it is.

What was found in a layer of this digest before is taken, and the layer itself need not be here.

params: digest, diff_id, size, media_type, created_by, as the image's documents have them. Files:
the layer. Facts: layer.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import Refusal
from pipeline.oci.blob import Absent
from pipeline.oci.reading import layer_index
from pipeline.steps.layers import INDEX
from pipeline.steps.program import Inputs, Result


def run(inputs: Inputs, out: Path) -> Result:
    """Write the index. Raises Refusal for a layer that is not what the image says of it."""
    params = inputs.params
    digest, said = params["digest"], params["diff_id"]
    place = inputs.file(digest.removeprefix("sha256:"))
    index = layer_index(place if place.is_file() else Absent(digest), digest, inputs.kept)
    if index.diff_id != said:
        raise Refusal(
            f"layer {digest} of the base unpacks to {index.diff_id}, not {said}",
            hint="the image does not hold together; nothing was built on it",
        )
    (out / INDEX).write_bytes(index.to_bytes())
    return Result({"layer": dict(params), "notes": []})

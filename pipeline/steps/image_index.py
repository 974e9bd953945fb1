"""Step `image-index`: look into a layer of a base image. The layer stays where and as it is.

params: digest, diff_id, size, media_type, created_by, as the image's documents have them. Files:
the layer. Facts: layer.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import Refusal
from pipeline.oci.content import index_blob
from pipeline.steps.layers import INDEX
from pipeline.steps.program import Inputs, Result


def run(inputs: Inputs, out: Path) -> Result:
    """Write the index. Raises Refusal for a layer that is not what the image says of it."""
    params = inputs.params
    index = index_blob(inputs.file(params["digest"].removeprefix("sha256:")))
    for found, said in ((index.digest, params["digest"]), (index.diff_id, params["diff_id"])):
        if found != said:
            raise Refusal(
                f"a layer of the base is {found}, not {said}",
                hint="the image does not hold together; nothing was built on it",
            )
    (out / INDEX).write_bytes(index.to_bytes())
    return Result({"layer": dict(params), "notes": []})

"""Step `system-layer`: what Debian and the wheels do not bring: CUDA's usual places, the start.

params: site_packages, epoch, level. Steps: all layers below, then `wheel-conflicts`, without whose
consent nothing stands on these layers. Facts: layer, runtime (what a container starts with), env
(what follows from the content).
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.config import image_config
from pipeline.base.cuda import write_system_layer
from pipeline.steps.jit import jit_environment, jit_sources
from pipeline.steps.layers import BLOB, seal, view_of
from pipeline.steps.program import Inputs, Result


def run(inputs: Inputs, out: Path) -> Result:
    """Write the layer. Raises Refusal when the wheels bring no CUDA toolkit."""
    params = inputs.params
    view = view_of("base", inputs.steps[:-1], inputs)
    site = params["site_packages"].strip("/")
    index = write_system_layer(view, site, out / BLOB, epoch=params["epoch"], level=params["level"])
    sources = view.tree.under(jit_sources(site))
    hashes = {node.entry.path: node.entry.sha256 for node in sources if node.entry.sha256}
    return seal(
        index,
        out,
        created_by="sm121-chain base: CUDA paths and start",
        runtime=image_config(),
        env=jit_environment(hashes, site),
    )

"""Step `image-inventory`: which distributions a base image holds, captured at its first use.

params: sites. Steps: its layers, lowest first. Files: the layers. Facts: distributions.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.inventory.distributions import read_inventory
from pipeline.steps.layers import view_of
from pipeline.steps.program import Inputs, Result


def run(inputs: Inputs, out: Path) -> Result:
    """List (normalized name, version). What cannot be read is for the audit to say."""
    inventory = read_inventory(view_of("base", inputs.steps, inputs), inputs.params["sites"])
    found = {(one.name, one.version) for one in inventory.distributions if one.version}
    return Result({"distributions": [list(pair) for pair in sorted(found)]})

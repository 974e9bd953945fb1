"""The row sweep: FA2's paged MLA over 1 to 512 rows, decode and causal, two seeds.

FlashInfer 0.6.17, which never initialises its accumulators when there is no rotary part, is wrong
in all of these shapes, with finite numbers or NaN.
"""

from __future__ import annotations

import argparse
import sys

import mla
import probe as contract
from probe import Probe

SHAPES = (
    *(mla.decode(6, 2048), mla.decode(1, 2048), mla.decode(64, 64), mla.decode(64, 2048)),
    *(mla.causal(rows) for rows in (128, 256, 512)),
)
SEEDS = (0, 1)


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    torch = contract.gpu(probe, given.capability)
    mla.flashinfer(probe)
    mla.build(torch, ["bf16"])
    for shape in SHAPES:
        for seed in SEEDS:
            mla.compare(probe, torch, shape, "bf16", seed)
    mla.assert_near(probe)


if __name__ == "__main__":
    sys.exit(contract.run("fa2_rows", str(__doc__), body, mla.PLANTS))

"""vLLM's answer to "is programmatic dependent launch on?": yes on SM9x and SM10x, nowhere else."""

from __future__ import annotations

import argparse
import sys
from typing import Any
from unittest import mock

import probe as contract
import vllm_module
from probe import CannotRun, Probe

# major, minor -> the patched answer
ANSWERS = {(8, 9): 0, (9, 0): 1, (10, 0): 1, (11, 0): 0, (12, 0): 0, (12, 1): 0}
PLANTS = {"unpatched": "the answer is yes from major 9 up, as upstream gives it"}


def answer(torch: Any, platform: Any, capability: tuple[int, int]) -> bool:
    """What the platform says on a GPU of this capability."""
    device = mock.patch.object(torch.cuda, "current_device", lambda: 0)
    asked = mock.patch.object(torch.cuda, "get_device_capability", lambda *_: capability)
    with device, asked:
        return bool(platform.is_arch_support_pdl())


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    try:
        import torch
    except ImportError as error:
        raise CannotRun(f"torch cannot be imported: {error}") from None
    platform = vllm_module.load(probe, vllm_module.CUDA, given.root).CudaPlatformBase
    for capability, wanted in ANSWERS.items():
        got = answer(torch, platform, capability)
        if probe.plant == "unpatched":
            got = capability[0] >= 9
        probe.number(f"pdl_{capability[0]}{capability[1]}", int(got), equals=wanted)


if __name__ == "__main__":
    options = vllm_module.options
    sys.exit(contract.run("pdl_gate", str(__doc__), body, PLANTS, options))

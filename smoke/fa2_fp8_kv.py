"""FA2's paged MLA over an fp8 cache, against the dequantised cache; and which GPUs plan() takes.

On a larger GPU this proves nothing about the tile that SM121 gets. `--as-sm121` reports SM121's
shared memory to the kernel's launcher (102,400 B an SM, 101,376 B a block), refuses what would
not fit there, and tells how much was asked. It needs a C compiler.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import mla
import probe as contract
from probe import CannotRun, Probe

SHAPES = (mla.decode(3, 64), mla.causal(64), mla.causal(128), mla.causal(1024), mla.decode(6, 2048))
SEEDS = (0, 1)
REFUSED = ((10, 0), (8, 9))
BLOCK_BYTES = 101_376
ASKED = "SM121_SHARED_MEMORY_ASKED"
SHIM = Path(__file__).with_name("sm121_shared_memory.c")


class _Accepted(Exception):
    """plan() went by its checks and asked for the module."""


def accepts(torch: Any, capability: tuple[int, int]) -> bool:
    """Whether plan() takes an fp8 cache on a GPU of this capability."""
    from flashinfer.mla import _core

    shape = mla.decode(1, 64)
    kernel = mla.Kernel(torch, shape, mla.inputs(torch, shape, torch.float8_e4m3fn, 0), "")
    answers = mock.patch.object(_core, "get_compute_capability", lambda device: capability)
    stops = mock.patch.object(_core, "get_batch_mla_module", side_effect=_Accepted)
    with answers, stops:
        try:
            kernel.plan()
        except _Accepted:
            return True
        except ValueError:
            return False
    return False


def report_sm121(arguments: list[str]) -> None:
    """Start this program anew with the shim in front of CUDA's runtime. Raises CannotRun."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise CannotRun("--as-sm121 needs a C compiler")
    folder = Path(tempfile.mkdtemp(prefix="sm121-"))
    library = folder / "shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        raise CannotRun(f"the shim does not compile: {made.stderr.strip()[:200]}")
    environment = os.environ | {"LD_PRELOAD": str(library), ASKED: str(folder / "asked")}
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(done.returncode)


def asked() -> list[int]:
    """Bytes of shared memory a block that launches have asked for, as the shim saw them."""
    path = Path(os.environ[ASKED])
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    torch = contract.gpu(probe, given.capability)
    mla.flashinfer(probe)
    wanted = given.capability
    probe.number(f"accepts_{wanted[0]}{wanted[1]}", int(accepts(torch, wanted)), equals=1)
    for capability in REFUSED:
        name = f"accepts_{capability[0]}{capability[1]}"
        probe.number(name, int(accepts(torch, capability)), equals=0)

    mla.build(torch, ["fp8"])
    if given.as_sm121:
        probe.stand_ins.append("SM121's shared memory, reported to the launcher")
    try:
        # Whether plan() takes the GPU was asked above; here the kernel is.
        from flashinfer.mla import _core

        with mock.patch.object(_core, "get_compute_capability", lambda device: (9, 0)):
            for shape in SHAPES:
                for seed in SEEDS:
                    mla.compare(probe, torch, shape, "fp8", seed)
    finally:
        if given.as_sm121 and asked():
            probe.number("shared_memory_asked", max(asked()), max=BLOCK_BYTES)
    mla.assert_near(probe)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the probe's own options."""
    parser.add_argument(
        "--as-sm121", action="store_true", help="report SM121's shared memory to the launcher"
    )


if __name__ == "__main__":
    if "--as-sm121" in sys.argv and ASKED not in os.environ:
        report_sm121(sys.argv[1:])
    sys.exit(contract.run("fa2_fp8_kv", str(__doc__), body, mla.PLANTS, options))

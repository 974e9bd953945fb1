"""A trivial CuTeDSL kernel is compiled and run; its five packages stand at one version.

A family at mixed versions (four at 4.7.0, libs-cu13 left at 4.6.2) compiles nothing.
"""

from __future__ import annotations

import argparse
import sys
from importlib import metadata
from typing import Any

import probe as contract
from probe import CannotRun, Probe

PACKAGES = (
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
    "nvidia-cutlass-dsl-libs-cu13",
)
THREADS = 128
PLANTS = {"wrong-sum": "the kernel's input is changed after the wanted result was computed"}


def versions() -> dict[str, str]:
    """Return the installed packages of the family."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def kernel() -> Any:
    """Return a host function that adds two vectors of THREADS floats."""
    from cutlass import cute

    # The annotations are the DSL's: it reads them when it compiles.
    @cute.kernel
    def add(a, b, out):  # type: ignore[no-untyped-def]
        at, _, _ = cute.arch.thread_idx()
        out[at] = a[at] + b[at]

    @cute.jit
    def launch(a, b, out):  # type: ignore[no-untyped-def]
        add(a, b, out).launch(grid=[1, 1, 1], block=[THREADS, 1, 1])

    return launch


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    found = versions()
    if not found:
        raise CannotRun("nvidia-cutlass-dsl is not installed")
    probe.facts.update(found)
    probe.number("packages", len(found), equals=len(PACKAGES))
    probe.number("versions", len(set(found.values())), equals=1)
    torch = contract.gpu(probe, given.capability)
    launch = kernel()
    from cutlass import cute
    from cutlass.cute.runtime import from_dlpack

    a = torch.arange(THREADS, dtype=torch.float32, device="cuda")
    b = torch.full_like(a, 0.5)
    want = a + b
    if probe.plant == "wrong-sum":
        b[-1] += 1
    out = torch.full_like(a, float("nan"))
    tensors = [from_dlpack(t) for t in (a, b, out)]
    probe.say("compiling")
    cute.compile(launch, *tensors)(*tensors)
    torch.cuda.synchronize()
    probe.number("wrong_elements", int((out != want).sum()), equals=0)


if __name__ == "__main__":
    sys.exit(contract.run("cute_dsl", str(__doc__), body, PLANTS))

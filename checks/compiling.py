"""Compile, without a GPU, what the chain's patches and pins are about; by hand, or nightly.

    nox -s compile_check                     about 3 GB of wheels; minutes

An environment for this machine gets the versions that the lock holds for v8: FlashInfer with the
stage's patches, torch for its headers, the CUDA compiler, the cutlass-dsl family. Hashes of these
wheels are not in the lock, which holds those of arm64: pip's own checks must do. Then

- `mla-bf16`, `mla-fp8`: FlashInfer's module for MLA without a rotary part is compiled for sm_121a,
  from the patched header. Objects only: no stub of the driver's library is there to link with.
- `dsl`: a CuTeDSL kernel is compiled for sm_121a with the family at the lock's version,
- `dsl-mixed`: and is not where only libs-cu13 has that version, the rest being at 4.7.0: the state
  that an install of a FlashInfer nightly with its requirements left behind.

stdout is one JSON object a line. Exit status 1 when one of them is not as said here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.patching.apply import apply_patches
from pipeline.patching.sources import open_tree
from pipeline.project import Project

ARCH = "sm_121a"
STAGE = "v8"
FAMILY = "nvidia-cutlass-dsl"
OTHERS = ("base", "core", "cu12", "cu13")
MIXED_AT = "4.7.0"
MIXED_SAYS = "cute-to-nvvm"
_WANTED = (
    *("torch", "flashinfer-python", "apache-tvm-ffi", "numpy", "ninja", "nvidia-cuda-nvcc"),
    *("nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", FAMILY),
    *(f"{FAMILY}-libs-{part}" for part in OTHERS),
)

_MLA = """
import re, subprocess, sys, torch
from pathlib import Path
from flashinfer.jit.attention.modules import gen_batch_mla_module
kv = {"fp8": torch.float8_e4m3fn, "bf16": torch.bfloat16}[sys.argv[1]]
bf16 = torch.bfloat16
spec = gen_batch_mla_module("fa2", bf16, kv, bf16, torch.int32, 512, 0, False)
spec.write_ninja()
objects = re.findall(r"^build (\\S+\\.o):", spec.ninja_path.read_text(), re.M)
command = ["ninja", "-f", spec.ninja_path, "-j", "1", *objects]
subprocess.run(command, check=True, cwd=spec.build_dir)
assert objects and f"code={sys.argv[2]}" in spec.ninja_path.read_text()
"""
_KERNEL = """
import cutlass
import cutlass.cute as cute


@cute.kernel
def kernel(wanted: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    if thread == wanted:
        cute.printf("%d", thread)


@cute.jit
def launch(wanted: cutlass.Int32):
    kernel(wanted).launch(grid=(1, 1, 1), block=(32, 1, 1))


cute.compile(launch, cutlass.Int32(1))
"""


def main(args: Sequence[str]) -> int:
    """Make the environment, compile, tell."""
    parser = argparse.ArgumentParser(prog="nox -s compile_check --", description=__doc__)
    parser.add_argument("--scratch", type=Path, help="keep the environment there, and use it again")
    options = parser.parse_args(args)
    try:
        with tempfile.TemporaryDirectory(prefix="compile-check-") as temporary:
            return check(options.scratch or Path(temporary))
    except ChainError as error:
        print(f"error: {error.message}\n  {error.hint or error.usual_hint}", file=sys.stderr)
        return error.exit_status


def check(scratch: Path) -> int:
    """Compile everything in an environment below `scratch`; return the exit status."""
    pins, failed = wanted(Project(Path())), False
    place = Environment(scratch.resolve())
    place.make(pins)
    for kind in ("bf16", "fp8"):
        failed |= _tell(f"mla-{kind}", place.run(_MLA, kind, ARCH))
    failed |= _tell("dsl", place.run(_KERNEL))
    mixed = {name: MIXED_AT for name in pins if name.startswith(FAMILY)}
    place.install(mixed | {f"{FAMILY}-libs-cu13": pins[f"{FAMILY}-libs-cu13"]})
    failed |= _tell("dsl-mixed", place.run(_KERNEL), says=MIXED_SAYS)
    return int(failed)


def wanted(project: Project) -> dict[str, str]:
    """Return the versions that the lock holds for the stage, of what is compiled here."""
    selected = project.lock.select("wheels", project.chain.groups(STAGE))
    versions = {wheel.name: wheel.version for wheel in selected}
    return {name: versions[name] for name in _WANTED}


class Environment:
    """A virtual environment below a directory."""

    def __init__(self, scratch: Path):
        self._scratch = scratch
        self._venv = scratch / "venv"

    def make(self, pins: Mapping[str, str]) -> None:
        """Make it, with these versions and what they require, and the stage's patches."""
        uv = ["uv", "venv", "--quiet", "--allow-existing", f"--python={sys.executable}"]
        _outside([*uv, str(self._venv)])
        self.install(pins, "--reinstall-package=flashinfer-python")
        self.install(pins, deep=True)
        patches = [
            one
            for one in Project(Path()).patches.values()
            if one.distribution == "flashinfer-python"
        ]
        done = apply_patches(patches, open_tree(self._venv, {"flashinfer-python"}))
        if not done.evaluation.fits:
            raise Refusal("the patches of FlashInfer do not fit", hint="see `patches check`")

    def install(self, pins: Mapping[str, str], *options: str, deep: bool = False) -> None:
        """Install exactly these versions; with their requirements only if `deep`."""
        names = [f"{name}=={version}" for name, version in pins.items()]
        command = ["uv", "pip", "install", "--quiet", "--only-binary=:all:", *options]
        command += [] if deep else ["--no-deps"]
        _outside([*command, f"--python={self._venv}/bin/python", *names])

    def run(self, program: str, *args: str) -> dict[str, Any]:
        """Run a program in it; return seconds of CPU, status and the end of what it said."""
        file = self._scratch / "program.py"  # the DSL reads the source of its kernels
        file.write_text(program, encoding="utf-8")
        (site,) = self._venv.glob("lib/python3.*/site-packages")
        own = {
            "CUDA_HOME": str(site / "nvidia" / "cu13"),
            "FLASHINFER_CUDA_ARCH_LIST": "12.1",
            "FLASHINFER_WORKSPACE_BASE": str(self._scratch / "workspace"),
            "CUTE_DSL_ARCH": ARCH,
            "PATH": f"{self._venv}/bin:{os.environ['PATH']}",
        }
        before, began = os.times(), time.monotonic()
        done = subprocess.run(
            [self._venv / "bin" / "python", file, *args],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        after = os.times()
        cpu = after.children_user + after.children_system
        cpu -= before.children_user + before.children_system
        return {
            "status": done.returncode,
            "cpu": round(cpu, 1),
            "wall": round(time.monotonic() - began, 1),
            "said": done.stdout,
        }


def _outside(command: Sequence[str]) -> None:
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise OutsideTrouble(f"{' '.join(command[:3])}: {last[0]}")


def _tell(name: str, result: Mapping[str, Any], *, says: str = "") -> bool:
    """Print a result; return whether it is not as wanted: to succeed, or to fail with a text."""
    status, said = result["status"], result["said"]
    good = status == 0 if not says else status != 0 and says in said
    document = {"check": name, "good": good, **result, "said": said[-800:] if not good else ""}
    print(json.dumps(document), flush=True)
    return not good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

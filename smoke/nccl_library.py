"""Which NCCL is really loaded: its own answer, where it lies, and that there is no second one.

`NCCL_VERSION` in the environment means nothing. The library is asked: the one that torch maps, and
the one that vLLM opens (`VLLM_NCCL_SO_PATH`, else `libnccl.so.2`), which must be the same file.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import probe as contract
from probe import Broken, CannotRun, Probe

VERSION = 23007
_NAME = re.compile(r"libnccl\.so(\.\d+)*")
PLANTS = {"second-copy": "a copy of the library, under another path, is loaded as well"}


def mapped(maps: str) -> list[str]:
    """Return the paths of the NCCL libraries in the text of /proc/self/maps, each file once."""
    paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines() if "/" in line}
    paths = {path.removesuffix(" (deleted)") for path in paths}
    return sorted(path for path in paths if _NAME.fullmatch(Path(path).name))


def installed(folders: list[str]) -> list[str]:
    """Return the NCCL libraries below the site-packages among the folders, each file once."""
    found = set()
    for folder in folders:
        if Path(folder).name in ("site-packages", "dist-packages"):
            for place, _, files in os.walk(folder):
                found |= {os.path.realpath(Path(place, f)) for f in files if _NAME.fullmatch(f)}
    return sorted(found)


def version(path: str) -> int:
    """Return what the library itself says, 23007 for 2.30.7. Raises Broken."""
    answer = ctypes.c_int(0)
    status = ctypes.CDLL(path).ncclGetVersion(ctypes.byref(answer))
    if status:
        raise Broken(f"ncclGetVersion of {path} returns {status}")
    return answer.value


def maps() -> list[str]:
    """Return the NCCL libraries of this process."""
    return mapped(Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace"))


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    try:
        import torch
    except ImportError as error:
        raise CannotRun(f"torch cannot be imported: {error}") from None
    probe.facts["torch"] = str(torch.__version__)
    probe.facts["NCCL_VERSION of the environment, which is not asked"] = os.environ.get(
        "NCCL_VERSION", ""
    )
    first = maps()
    if not first:
        raise Broken("torch has mapped no NCCL")
    name = os.environ.get("VLLM_NCCL_SO_PATH") or "libnccl.so.2"
    try:
        ctypes.CDLL(name)
    except OSError as error:
        raise Broken(f"{name} cannot be opened: {error}") from None
    if probe.plant == "second-copy":
        copy = Path(tempfile.mkdtemp()) / "libnccl.so.2"
        shutil.copyfile(first[0], copy)
        ctypes.CDLL(str(copy))
        copy.unlink()
    found = maps()
    probe.facts["path"] = first[0]
    probe.facts["mapped"] = ", ".join(found)
    probe.number("version", version(first[0]), equals=VERSION)
    probe.number("copies_mapped", len(found), equals=1)
    files = installed(sys.path)
    probe.facts["installed"] = ", ".join(files)
    # None there is no fault: a system's NCCL may be the only one.
    probe.number("copies_installed", len(files), max=1)
    for path in found:
        probe.say(path)


if __name__ == "__main__":
    sys.exit(contract.run("nccl_library", str(__doc__), body, PLANTS))

"""What this machine and this image are, as one JSON object on stdout: README.md has its keys.

run.py starts it before the probes. It multiplies once on the GPU, so that the libraries that a
server uses are loaded and can be named.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import socket
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

FACTS = Path("/usr/share/sm121-chain/stages")
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LIBRARY = re.compile(r"lib(nccl|cudart|cublas|cublasLt|cudnn|nvrtc|cuda)\.so[.0-9]*")
_FAMILIES = re.compile(
    r"(flashinfer|nvidia|torch|triton|vllm|quack-kernels|apache-tvm-ffi|transformers|instanttensor)"
    r"(-.*)?"
)


def libraries() -> dict[str, list[str]]:
    """Return the mapped libraries of CUDA by name, with their paths."""
    found: dict[str, set[str]] = {}
    text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    for line in text.splitlines():
        path = line.split(maxsplit=5)[-1]
        match = _LIBRARY.fullmatch(Path(path).name) if "/" in path else None
        if match:
            found.setdefault(match[1], set()).add(path)
    return {name: sorted(paths) for name, paths in sorted(found.items())}


def distributions() -> dict[str, str]:
    """Return the installed distributions of the families that the chain is about."""
    found = {}
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower().replace("_", "-")
        if _FAMILIES.fullmatch(name):
            found[name] = distribution.version
    return dict(sorted(found.items()))


def image() -> dict[str, Any]:
    """Return what the image says of its stages."""
    return {path.stem: json.loads(path.read_bytes()) for path in sorted(FACTS.glob("*.json"))}


def driver() -> str | None:
    """Return the driver's version as NVML gives it."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(96)
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(text, 96) == 0:
            return text.value.decode()
    except (OSError, AttributeError):
        pass
    return None


def asked(paths: list[str], function: str) -> int | None:
    """Return the version that a mapped library gives of itself."""
    answer = ctypes.c_int(0)
    for path in paths:
        if getattr(ctypes.CDLL(path), function)(ctypes.byref(answer)) == 0:
            return answer.value
    return None


def boot_id() -> str | None:
    """Return the kernel's id of this boot: the same in every container of one machine."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def gpus(torch: Any) -> list[dict[str, Any]]:
    """Return the GPUs that torch sees."""
    found = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        uuid = getattr(properties, "uuid", None)
        found.append(
            {
                "name": properties.name,
                "capability": [properties.major, properties.minor],
                "sms": properties.multi_processor_count,
                "shared_memory_per_sm": properties.shared_memory_per_multiprocessor,
                "shared_memory_per_block_optin": properties.shared_memory_per_block_optin,
                "memory": properties.total_memory,
                "uuid": None if uuid is None else str(uuid),
            }
        )
    return found


def environment() -> dict[str, Any]:
    """Return the whole object."""
    told: dict[str, Any] = {
        "gpu": None,
        "gpus": [],
        "capability": None,
        "driver": driver(),
        "python": platform.python_version(),
        "torch": None,
        "flashinfer": None,
        "distributions": distributions(),
        "image": image(),
        "machine": platform.machine(),
        "host": socket.gethostname(),
        "boot_id": boot_id(),
    }
    try:
        import torch
    except ImportError as error:
        told["torch_error"] = str(error)
    else:
        told["torch"] = str(torch.__version__)
        if torch.cuda.is_available():
            told["gpus"] = gpus(torch)
            told["gpu"] = told["gpus"][0]["name"]
            told["capability"] = told["gpus"][0]["capability"]
            one = torch.ones((16, 16), dtype=torch.bfloat16, device="cuda")
            torch.cuda.synchronize((one @ one).device)
    try:
        import flashinfer

        told["flashinfer"] = str(flashinfer.__version__)
    except ImportError as error:
        told["flashinfer_error"] = str(error)
    told["libraries"] = libraries()
    told["cuda_runtime"] = asked(told["libraries"].get("cudart", []), "cudaRuntimeGetVersion")
    told["nccl"] = asked(told["libraries"].get("nccl", []), "ncclGetVersion")
    return told


if __name__ == "__main__":
    stdout = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not for stdout
    line = json.dumps(environment(), allow_nan=False)
    with os.fdopen(stdout, "w", encoding="utf-8") as out:
        out.write(line + "\n")
    sys.exit(0)

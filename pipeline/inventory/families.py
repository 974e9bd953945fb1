"""Which distributions belong together, and which of them talk to the GPU.

Named one by one: a name says nothing (nvidia-cublas of CUDA 13 was nvidia-cublas-cu12 before, but
nvidia-cudnn-cu13 was nvidia-cudnn-cu12, and nvidia-cutlass-dsl-libs-cu12 and -cu13 stand side by
side).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """Distributions that are one thing. `one_version`: a mix of versions does not work."""

    name: str
    members: tuple[str, ...]
    one_version: bool = False


FAMILIES = (
    # A mix does not compile: the pass manager fails to add `cute-to-nvvm`.
    Family(
        "nvidia-cutlass-dsl",
        (
            "nvidia-cutlass-dsl",
            "nvidia-cutlass-dsl-libs-base",
            "nvidia-cutlass-dsl-libs-core",
            "nvidia-cutlass-dsl-libs-cu12",
            "nvidia-cutlass-dsl-libs-cu13",
        ),
        one_version=True,
    ),
    # FlashInfer refuses to start, or loads the kernels of another version.
    Family(
        "flashinfer",
        ("flashinfer-python", "flashinfer-cubin", "flashinfer-jit-cache"),
        one_version=True,
    ),
    Family("torch", ("torch", "torchvision", "torchaudio", "torch-c-dlpack-ext")),
    Family("triton", ("triton", "tokenspeed-triton")),
    Family(
        "nvidia-cu13",
        (
            "nvidia-cublas",
            "nvidia-cuda-cccl",
            "nvidia-cuda-crt",
            "nvidia-cuda-cupti",
            "nvidia-cuda-nvcc",
            "nvidia-cuda-nvdisasm",
            "nvidia-cuda-nvrtc",
            "nvidia-cuda-runtime",
            "nvidia-cudnn-cu13",
            "nvidia-cufft",
            "nvidia-cufile",
            "nvidia-curand",
            "nvidia-cusolver",
            "nvidia-cusparse",
            "nvidia-cusparselt-cu13",
            "nvidia-nccl-cu13",
            "nvidia-nvjitlink",
            "nvidia-nvshmem-cu13",
            "nvidia-nvtx",
            "nvidia-nvvm",
        ),
    ),
    Family(
        "nvidia-cu12",
        (
            "nvidia-cublas-cu12",
            "nvidia-cuda-cccl-cu12",
            "nvidia-cuda-cupti-cu12",
            "nvidia-cuda-nvcc-cu12",
            "nvidia-cuda-nvrtc-cu12",
            "nvidia-cuda-runtime-cu12",
            "nvidia-cudnn-cu12",
            "nvidia-cufft-cu12",
            "nvidia-cufile-cu12",
            "nvidia-curand-cu12",
            "nvidia-cusolver-cu12",
            "nvidia-cusparse-cu12",
            "nvidia-cusparselt-cu12",
            "nvidia-nccl-cu12",
            "nvidia-nvjitlink-cu12",
            "nvidia-nvshmem-cu12",
            "nvidia-nvtx-cu12",
        ),
    ),
)

# Beside the families: what launches kernels, or brings its own.
_KERNELS = frozenset(
    {
        "apache-tvm-ffi",
        "cuda-bindings",
        "cuda-python",
        "fastsafetensors",
        "instanttensor",
        "nvidia-cudnn-frontend",
        "nvidia-ml-py",
        "quack-kernels",
        "sglang",
        "tilelang",
        "vllm",
        "xgrammar",
    }
)

# What each nvidia package of CUDA 12 is called for CUDA 13: some lost their suffix, some did not.
RENAMES: Mapping[str, str] = {
    "nvidia-cublas-cu12": "nvidia-cublas",
    "nvidia-cuda-cccl-cu12": "nvidia-cuda-cccl",
    "nvidia-cuda-cupti-cu12": "nvidia-cuda-cupti",
    "nvidia-cuda-nvcc-cu12": "nvidia-cuda-nvcc",
    "nvidia-cuda-nvrtc-cu12": "nvidia-cuda-nvrtc",
    "nvidia-cuda-runtime-cu12": "nvidia-cuda-runtime",
    "nvidia-cudnn-cu12": "nvidia-cudnn-cu13",
    "nvidia-cufft-cu12": "nvidia-cufft",
    "nvidia-cufile-cu12": "nvidia-cufile",
    "nvidia-curand-cu12": "nvidia-curand",
    "nvidia-cusolver-cu12": "nvidia-cusolver",
    "nvidia-cusparse-cu12": "nvidia-cusparse",
    "nvidia-cusparselt-cu12": "nvidia-cusparselt-cu13",
    "nvidia-nccl-cu12": "nvidia-nccl-cu13",
    "nvidia-nvjitlink-cu12": "nvidia-nvjitlink",
    "nvidia-nvshmem-cu12": "nvidia-nvshmem-cu13",
    "nvidia-nvtx-cu12": "nvidia-nvtx",
}

_FAMILY_OF = {member: family for family in FAMILIES for member in family.members}


def family_of(name: str) -> str:
    """Return the family of a distribution, by normalised name; "" for none."""
    family = _FAMILY_OF.get(name)
    return family.name if family else ""


def talks_to_gpu(name: str) -> bool:
    """Whether a distribution, by normalised name, holds or launches GPU code."""
    return name in _FAMILY_OF or name in _KERNELS

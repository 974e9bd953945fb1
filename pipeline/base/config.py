"""The configuration of the base image: what a container of it starts with.

Entry point, working directory, PATH and CUDA_HOME are the vendor image's (vllm-project/vllm,
docker/Dockerfile, stage vllm-openai). Left out on purpose: VLLM_USAGE_SOURCE, which would report
this image as the vendor's; LD_LIBRARY_PATH, which would come before the libraries' own RUNPATHs.
"""

from __future__ import annotations

from typing import Any

_PATH = (
    *("/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/usr/local/sbin", "/usr/local/bin"),
    *("/usr/sbin", "/usr/bin", "/sbin", "/bin"),
)
ENVIRONMENT = {
    "PATH": ":".join(_PATH),
    "CUDA_HOME": "/usr/local/cuda",
    "LANG": "C.UTF-8",
    # Which parts of the driver the container runtime mounts.
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    # The container runtime refuses older drivers: there is no forward-compatibility package here.
    "NVIDIA_REQUIRE_CUDA": "cuda>=13.0",
}


def image_config() -> dict[str, Any]:
    """Return the `config` object of an OCI image configuration (image-spec, config.md)."""
    return {
        "Env": [f"{name}={value}" for name, value in ENVIRONMENT.items()],
        "Entrypoint": ["vllm", "serve"],
        "WorkingDir": "/vllm-workspace",
    }

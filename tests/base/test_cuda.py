"""CUDA's usual places over a toolkit that wheels brought."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.config import image_config
from pipeline.base.cuda import driver_functions, write_system_layer
from pipeline.errors import Refusal
from pipeline.oci.files import read_files
from pipeline.oci.index import Entry, LayerIndex
from pipeline.oci.tree import Tree
from pipeline.oci.view import LayerInfo

SITE = "usr/local/lib/python3.11/dist-packages"
TOOLKIT = f"{SITE}/nvidia/cu13"
HEADER = b"""
#define cuMemAlloc cuMemAlloc_v2
#define cuMemcpy __CUDA_API_PTDS(cuMemcpy)
#define cuStreamQuery __CUDA_API_PTSZ(cuStreamQuery)
typedef enum CUresult_enum { CUDA_SUCCESS = 0 } CUresult;
typedef cuuint64_t x; typedef struct CUctx_st *CUcontext;
CUresult CUDAAPI cuInit(unsigned int Flags);
CUresult CUDAAPI cuMemAlloc(CUdeviceptr *dptr, size_t bytesize);
"""
FILES = [
    *("bin/nvcc", "bin/nvcc.profile", "bin/crt/link.stub", "include/cuda.h", "include/crt/x.h"),
    *("lib/libcudart.so.13", "lib/libcudart_static.a", "lib/libcublas.so.13"),
    *("lib/libnvrtc-builtins.so.13.0", "lib/libcheckpoint.so", "lib/cmake/cub/cub.cmake"),
    "nvvm/bin/cicc",
]


class View:
    """An image of the given files below the toolkit; cuda.h has content."""

    name = "test"
    layers: Sequence[LayerInfo] = ()
    config: Mapping[str, Any] = {}

    def __init__(self, files: Sequence[str]):
        entries = [Entry("usr/local", "dir", 0o2775), Entry("etc", "dir", 0o755)]
        entries += [Entry(f"{TOOLKIT}/{name}", "file", 0o644) for name in files]
        directories = {
            path.rsplit("/", depth)[0] for path in (e.path for e in entries) for depth in (1, 2)
        }
        entries += [Entry(p, "dir", 0o755) for p in directories if p.startswith(TOOLKIT)]
        self.tree = Tree.merge([entries])

    def read_many(self, paths: Collection[str]) -> dict[str, bytes]:
        return dict.fromkeys(paths, HEADER)


def write(out: Path, files: Sequence[str] = FILES) -> LayerIndex:
    return write_system_layer(View(files), SITE, out, epoch=0, level=3)


def test_every_usual_place_is_there(tmp_path: Path) -> None:
    index = write(tmp_path / "layer")
    home = "usr/local/cuda"
    entries = {entry.path: entry for entry in index.entries}
    links = {path.removeprefix(f"{home}/"): e.link for path, e in entries.items() if e.link}
    assert links == {
        "include": f"/{TOOLKIT}/include",
        "nvvm": f"/{TOOLKIT}/nvvm",
        "bin/crt": f"/{TOOLKIT}/bin/crt",
        "bin/nvcc": f"/{TOOLKIT}/bin/nvcc",
        "bin/nvcc.profile": f"/{TOOLKIT}/bin/nvcc.profile",
        "lib64/cmake": f"/{TOOLKIT}/lib/cmake",
        "lib64/libcheckpoint.so": f"/{TOOLKIT}/lib/libcheckpoint.so",
        "lib64/libcublas.so": f"/{TOOLKIT}/lib/libcublas.so.13",
        "lib64/libcublas.so.13": f"/{TOOLKIT}/lib/libcublas.so.13",
        "lib64/libcudart.so": f"/{TOOLKIT}/lib/libcudart.so.13",
        "lib64/libcudart.so.13": f"/{TOOLKIT}/lib/libcudart.so.13",
        "lib64/libcudart_static.a": f"/{TOOLKIT}/lib/libcudart_static.a",
        "lib64/libnvrtc-builtins.so": f"/{TOOLKIT}/lib/libnvrtc-builtins.so.13.0",
        "lib64/libnvrtc-builtins.so.13.0": f"/{TOOLKIT}/lib/libnvrtc-builtins.so.13.0",
    }
    for directory in (home, f"{home}/bin", f"{home}/lib64", f"{home}/lib64/stubs"):
        assert entries[directory].type == "dir"
    assert entries["vllm-workspace"].type == "dir"
    assert entries["usr/local"].mode == 0o2775  # what lower layers say is repeated
    paths = ["etc/ld.so.conf.d/cuda.conf", f"{home}/lib64/stubs/libcuda.so"]
    content = read_files(tmp_path / "layer", index, paths)
    assert content[paths[0]] == b"/usr/local/cuda/lib64\n"
    assert content[paths[1]].startswith(b"\x7fELF")
    assert b"\0cuMemAlloc_v2\0" in content[paths[1]]


def test_two_runs_give_the_same_bytes(tmp_path: Path) -> None:
    assert write(tmp_path / "one") == write(tmp_path / "two", list(reversed(FILES)))


@pytest.mark.parametrize("gone", ["bin/nvcc", "include/cuda.h", "lib/libcudart.so.13"])
def test_a_tree_without_the_toolkit_is_refused(tmp_path: Path, gone: str) -> None:
    with pytest.raises(Refusal, match=f"no CUDA toolkit: {gone} missing"):
        write(tmp_path / "layer", [name for name in FILES if name != gone])
    assert not (tmp_path / "layer").exists()


def test_two_versions_of_one_library_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"both libcublas\.so\.12 and libcublas\.so\.13"):
        write(tmp_path / "layer", [*FILES, "lib/libcublas.so.12"])
    assert not (tmp_path / "layer").exists()


def test_functions_and_their_variants_are_found_in_the_header() -> None:
    assert driver_functions(HEADER) == {
        *("cuInit", "cuMemAlloc", "cuMemAlloc_v2", "cuMemcpy", "cuMemcpy_ptds"),
        *("cuStreamQuery", "cuStreamQuery_ptsz"),
    }


def test_the_configuration_starts_vllm_as_the_vendor_image_does() -> None:
    config = image_config()
    environment = dict(variable.split("=", 1) for variable in config["Env"])
    assert config["Entrypoint"] == ["vllm", "serve"]
    assert config["WorkingDir"] == "/vllm-workspace"
    assert environment["CUDA_HOME"] == "/usr/local/cuda"
    assert "/usr/local/cuda/bin" in environment["PATH"].split(":")
    assert environment["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert "LD_LIBRARY_PATH" not in environment

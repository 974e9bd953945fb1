"""CUDA's usual places, as links into the toolkit that the wheels bring (site/nvidia/cu13).

/usr/local/cuda is a real directory. nvcc finds the rest of the toolkit from argv[0], so bin/ has
one link a file: through a linked directory it would look beside the wheel. lib64/ and the names
without a version are what a plain link needs and the wheels lack.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from pipeline.base.elfstub import shared_object
from pipeline.errors import Refusal
from pipeline.oci.index import DIRECTORY, LayerIndex
from pipeline.oci.layer import LayerWriter
from pipeline.oci.tree import Tree
from pipeline.oci.view import ImageView

CUDA_HOME = "usr/local/cuda"
TOOLKIT = "nvidia/cu13"
"""The toolkit's directory below site-packages."""

WORKING_DIRECTORY = "vllm-workspace"

_NEEDED = ("bin/nvcc", "include/cuda.h", "nvvm/bin/cicc", "lib/libcudart.so.13")
_VERSIONED = re.compile(r"(lib.+\.so)\.[0-9.]+")
_LOADER = "etc/ld.so.conf.d/cuda.conf"
# Functions, and the names that macros of the header turn them into.
_FUNCTION = re.compile(rb"\bcu[A-Z]\w*")
_PER_THREAD = re.compile(rb"__CUDA_API_PT(DS|SZ)\((cu\w+)\)")


def write_system_layer(
    view: ImageView, site: str, out: Path, *, epoch: int, level: int
) -> LayerIndex:
    """Write the layer on top of Debian and the wheels.

    `view` is the image so far, `site` its site-packages without leading slash. Raises Refusal when
    the toolkit's wheels are not in the tree, or bring one library in two versions.
    """
    toolkit = f"{site}/{TOOLKIT}"
    missing = [path for path in _NEEDED if view.tree.get(f"{toolkit}/{path}") is None]
    if missing:
        raise Refusal(
            f"{toolkit} is no CUDA toolkit: {', '.join(missing)} missing",
            hint="the lock needs the wheels of nvcc, nvvm and the CUDA runtime",
        )
    header = f"{toolkit}/include/cuda.h"
    stub = shared_object("libcuda.so.1", driver_functions(view.read_many([header])[header]))
    with LayerWriter(
        out, epoch=epoch, level=level, directory_mode=lambda path: _mode(view.tree, path)
    ) as writer:
        # ldconfig, which the container runtime runs when it has mounted the driver, reads it.
        writer.add_file(_LOADER, f"/{CUDA_HOME}/lib64\n".encode(), len(CUDA_HOME) + 8)
        for path, target in sorted(cuda_links(view.tree, toolkit)):
            writer.add_symlink(path, target)
        writer.add_file(f"{CUDA_HOME}/lib64/stubs/libcuda.so", stub, len(stub))
        writer.add_directory(WORKING_DIRECTORY)
        return writer.close()


def cuda_links(tree: Tree, toolkit: str) -> Iterator[tuple[str, str]]:
    """Yield (path, absolute target) of every link below CUDA_HOME."""
    for name in ("include", "nvvm"):
        yield f"{CUDA_HOME}/{name}", f"/{toolkit}/{name}"
    for name in _children(tree, f"{toolkit}/bin"):
        yield f"{CUDA_HOME}/bin/{name}", f"/{toolkit}/bin/{name}"
    libraries = _children(tree, f"{toolkit}/lib")
    short: dict[str, str] = {}
    for name in libraries:
        yield f"{CUDA_HOME}/lib64/{name}", f"/{toolkit}/lib/{name}"
        match = _VERSIONED.fullmatch(name)
        if match and match[1] in short:
            raise Refusal(f"{toolkit}/lib holds both {short[match[1]]} and {name}")
        if match:
            short[match[1]] = name
    for name, versioned in short.items():
        if name not in libraries:
            yield f"{CUDA_HOME}/lib64/{name}", f"/{toolkit}/lib/{versioned}"


def driver_functions(header: bytes) -> set[str]:
    """Return the names that a program compiled with this cuda.h may ask of libcuda.

    A superset: every identifier of the header that looks like a function of the driver API, and
    the variants for a default stream of its own (suffixes _ptds and _ptsz).
    """
    names = {match.decode("ascii") for match in _FUNCTION.findall(header)}
    for kind, name in _PER_THREAD.findall(header):
        names.add(f"{name.decode('ascii')}_pt{kind.decode('ascii').lower()}")
    return names


def _children(tree: Tree, directory: str) -> list[str]:
    below = (located.entry.path for located in tree.under(directory))
    return [posixpath.basename(path) for path in below if posixpath.dirname(path) == directory]


def _mode(tree: Tree, path: str) -> int:
    found = tree.get(path)
    return found.entry.mode if found and found.entry.type == DIRECTORY else 0o755

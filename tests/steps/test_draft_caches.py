"""Case 13, the builder: a stage that patches a header removes what was compiled from it."""

import hashlib
from pathlib import Path

import pytest

from pipeline.steps.draft import Draft
from pipeline.wheels.target import Target
from tests.audit.images import SITE, distribution, image

HEADER = "flashinfer/data/include/flashinfer/mla.cuh"
CACHES = "root/.cache/flashinfer"
OPS = f"{CACHES}/0.6.18/121a/cached_ops/batch_mla"
FILES = {HEADER: "#define TILE 32\n", "flashinfer/mla.py": "TILE = 32\n"}
TARGET = Target(python="3.12.3", site_packages=f"/{SITE}")


def draft(tmp_path: Path) -> Draft:
    view = image(
        tmp_path,
        distribution("flashinfer-python", "0.6.18", FILES)
        | {
            f"{OPS}/build.ninja": "rule nvcc\n",
            f"{OPS}/batch_mla.so": "x",
            f"{CACHES}/0.6.17/121a/cached_ops/batch_mla/batch_mla.so": "y",
            f"{CACHES}/0.6.18/121a/flashinfer_jit.log": "log",
        },
    )
    return Draft(view, TARGET, [], removed=[], installed=[])


@pytest.mark.parametrize(
    ("file", "gone"), [(HEADER, [f"{CACHES}/0.6.18/121a/cached_ops"]), ("flashinfer/mla.py", [])]
)
def test_13_a_patched_header_takes_the_kernels_of_its_version_with_it(
    tmp_path: Path, file: str, gone: list[str]
) -> None:
    one = draft(tmp_path)
    one.patch(file, b"new\n", hashlib.sha256(FILES[file].encode()).hexdigest())
    order, _ = one.order()
    assert list(order.whiteouts) == gone

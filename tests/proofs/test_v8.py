"""v8: the fp8 kernel fits SM121's shared memory, and plan() lets SM121 through."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Sources

HEADER = "flashinfer/data/include/flashinfer/attention/mla.cuh"
CORE = "flashinfer/mla/_core.py"
STAGE = Path(__file__).parents[2] / "stages" / "v08-fp8-kv.toml"

SM121_PER_SM = 102_400
SM121_PER_BLOCK = 101_376
H200_PER_SM = 233_472

# The struct, the dispatch and the statements in between are upstream's; the types only need a size.
HOST = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <type_traits>
struct __nv_fp8_e4m3 {{ uint8_t x; }};
struct bf16 {{ uint16_t x; }};
#define FLASHINFER_ERROR(message)
constexpr int cudaErrorNotSupported = 801;
{struct}
{macro}
template <typename DTypeKV, uint32_t KPE>
int show(int smem_limit_per_sm) {{
  DISPATCH_SMEM_CONFIG(smem_limit_per_sm, NUM_STAGES, CTA_TILE_KV, QK_SHARD, {{
    {statements}
    std::printf("%u %zu\\n", EFF_CTA_TILE_KV,
                sizeof(SharedStorageQKVO<EFF_NUM_STAGES, 64, EFF_CTA_TILE_KV, 512, KPE, bf16,
                                         DTypeKV, bf16>));
  }});
  return 0;
}}
int main(int, char** argv) {{
  int limit = std::atoi(argv[1]);
  show<bf16, 0>(limit), show<__nv_fp8_e4m3, 0>(limit), show<__nv_fp8_e4m3, 64>(limit);
}}
"""


def layouts(
    flashinfer: Sources, edits: Sequence[str], per_sm: int, directory: Path
) -> list[tuple[int, int]]:
    """(KV rows of a tile, bytes of shared memory) of bf16, fp8, fp8 with a rotary part of 64."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler here to lay out the kernel's shared memory")
    header = flashinfer.text(HEADER, edits)

    def piece(pattern: str) -> str:
        (found,) = re.findall(pattern, header, re.DOTALL | re.MULTILINE)
        return str(found)

    source = HOST.format(
        struct=piece(r"^template [^;]*?^struct SharedStorageQKVO \{.*?^\};"),
        macro=piece(r"^#define DISPATCH_SMEM_CONFIG.*?[^\\]$"),
        statements=piece(r"constexpr uint32_t EFF_NUM_STAGES.*?(?=using KTraits)"),
    )
    program = directory / "layout"
    program.with_suffix(".cpp").write_text(source, encoding="utf-8")
    command = [compiler, "-std=c++17", "-w", "-o", program, program.with_suffix(".cpp")]
    subprocess.run(command, check=True)
    lines = subprocess.run([program, str(per_sm)], check=True, capture_output=True, text=True)
    return [(int(rows), int(size)) for rows, size in map(str.split, lines.stdout.splitlines())]


def test_upstream_does_not_fit_sm121(flashinfer: Sources, tmp_path: Path) -> None:
    _, fp8, rotary = layouts(flashinfer, (), SM121_PER_SM, tmp_path)
    assert (fp8, rotary) == ((32, 117_312), (32, 129_536))
    assert fp8[1] > SM121_PER_BLOCK


def test_patched_fits_sm121(flashinfer: Sources, tmp_path: Path) -> None:
    bf16, fp8, _ = layouts(flashinfer, ("v8.a",), SM121_PER_SM, tmp_path)
    assert fp8 == (16, 91_680)
    assert max(bf16[1], fp8[1]) <= SM121_PER_BLOCK


def test_a_rotary_part_still_does_not_fit(flashinfer: Sources, tmp_path: Path) -> None:
    """The limit that the patch's text names: it is for models without a rotary part."""
    *_, rotary = layouts(flashinfer, ("v8.a",), SM121_PER_SM, tmp_path)
    assert rotary == (16, 101_888)
    assert rotary[1] > SM121_PER_BLOCK


@pytest.mark.parametrize("per_sm", [H200_PER_SM, 167_936])
def test_larger_classes_stay_as_they_are(flashinfer: Sources, tmp_path: Path, per_sm: int) -> None:
    before, after = (layouts(flashinfer, e, per_sm, tmp_path) for e in ((), ("v8.a",)))
    assert before == after
    assert after[1][0] == 32


class Passed(Exception):
    """plan() went by its checks and asked for the module."""


def passes(flashinfer: Sources, edits: Sequence[str], capability: tuple[int, int]) -> bool:
    def module(*args: object) -> None:
        raise Passed

    torch = SimpleNamespace(float16="f16", bfloat16="bf16", float8_e4m3fn="e4m3")
    names = {
        "torch": torch,
        "get_compute_capability": lambda device: capability,
        "get_batch_mla_module": module,
    }
    plan = flashinfer.take(CORE, "BatchMLAPagedAttentionWrapper.plan", edits, names)
    wrapper = SimpleNamespace(_backend="fa2", device="cuda")
    indptr = SimpleNamespace(dtype="i32")
    try:
        plan(
            wrapper, indptr, None, None, None, 32, 512, 0, 1, False, 0.0625,
            q_data_type="bf16", kv_data_type="e4m3",
        )  # fmt: skip
    except Passed:
        return True
    except ValueError as refusal:
        assert "requires an SM90" in str(refusal)
    return False


@pytest.mark.parametrize(
    ("edits", "accepted"),
    [((), {(9, 0)}), (("v8.b",), {(9, 0), (12, 0), (12, 1)})],
    ids=["upstream", "patched"],
)
def test_gate(flashinfer: Sources, edits: Sequence[str], accepted: set[tuple[int, int]]) -> None:
    capabilities = [(8, 9), (9, 0), (10, 0), (11, 0), (12, 0), (12, 1)]
    assert {c for c in capabilities if passes(flashinfer, edits, c)} == accepted

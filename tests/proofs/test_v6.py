"""v6: programmatic dependent launch on SM9x and SM10x, nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Sources

FILE = "vllm/platforms/cuda.py"
NAME = "CudaPlatformBase.is_arch_support_pdl"


def answer(vllm: Sources, edits: Sequence[str], major: int) -> bool:
    cuda = SimpleNamespace(
        current_device=lambda: 0, get_device_capability=lambda device: (major, 1)
    )
    function = vllm.take(FILE, NAME, edits, {"torch": SimpleNamespace(cuda=cuda)})
    return bool(function(None))


@pytest.mark.parametrize(
    ("edits", "yes"), [((), {9, 10, 11, 12}), (("v6",), {9, 10})], ids=["upstream", "patched"]
)
def test_majors(vllm: Sources, edits: Sequence[str], yes: set[int]) -> None:
    assert {m for m in (7, 8, 9, 10, 11, 12) if answer(vllm, edits, m)} == yes


def test_without_a_device_the_answer_stays_no(vllm: Sources) -> None:
    def fail() -> int:
        raise RuntimeError("no device")

    torch = SimpleNamespace(cuda=SimpleNamespace(current_device=fail))
    assert vllm.take(FILE, NAME, ("v6",), {"torch": torch})(None) is False

"""v1: the NoPE backend is asked first on SM121, says yes, picks a kernel that exists, gets fp8."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Sources

CUDA = "vllm/platforms/cuda.py"
SM90 = "vllm/v1/attention/backends/mla/flashinfer_mla_sparse_sm90.py"
OURS = "FLASHINFER_MLA_SPARSE_SM90"
THEIRS = "FLASHINFER_MLA_SPARSE_SM120"
MAJORS = (8, 9, 10, 11, 12)


class Names:
    """Stands for an enum: every member is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


def priorities(vllm: Sources, edits: Sequence[str], major: int, **kwargs: Any) -> list[str]:
    names = {"AttentionBackendEnum": Names()}
    function = vllm.take(CUDA, "_get_backend_priorities", edits, names)
    capability = SimpleNamespace(major=major, minor=1)
    order: list[str] = function(use_mla=True, device_capability=capability, **kwargs)
    return order


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the imports that the lifted functions make themselves."""
    utils: Any = ModuleType("vllm.utils.torch_utils")
    utils.is_quantized_kv_cache = lambda dtype: dtype.startswith("fp8")
    mla: Any = ModuleType("flashinfer.mla")
    mla.BatchMLAPagedAttentionWrapper = lambda *args, **kwargs: SimpleNamespace(**kwargs)
    for module in (utils, mla):
        for parent in ("vllm", "vllm.utils", "flashinfer"):
            monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        monkeypatch.setitem(sys.modules, module.__name__, module)


class TestOrder:
    def test_upstream_never_offers_it_on_major_12(self, vllm: Sources) -> None:
        assert OURS not in priorities(vllm, (), 12)

    @pytest.mark.parametrize("dtype", [None, "auto", "bfloat16", "fp8"])
    def test_it_stands_before_the_sm120_backend(self, vllm: Sources, dtype: str | None) -> None:
        order = priorities(vllm, ("v1.a",), 12, kv_cache_dtype=dtype, head_size=512)
        assert order == ["TRITON_MLA", OURS, THEIRS]

    @pytest.mark.parametrize("major", [m for m in MAJORS if m != 12])
    @pytest.mark.parametrize("head_size", [512, 576])
    def test_other_majors_keep_their_order(self, vllm: Sources, major: int, head_size: int) -> None:
        orders = [priorities(vllm, e, major, head_size=head_size) for e in ((), ("v1.a",))]
        assert orders[0] == orders[1]


@pytest.mark.parametrize(("edits", "accepted"), [((), {9}), (("v1.b",), {9, 12})])
def test_capability(vllm: Sources, edits: Sequence[str], accepted: set[int]) -> None:
    name = "FlashInferMLASparseSM90Backend.supports_compute_capability"
    supports = vllm.take(SM90, name, edits, {})
    assert {m for m in MAJORS if supports(None, SimpleNamespace(major=m))} == accepted


@pytest.mark.parametrize(
    ("edits", "major", "backend"),
    [((), 9, "fa3"), ((), 12, "fa3"), (("v1.c",), 9, "fa3"), (("v1.c",), 12, "fa2")],
)
def test_kernel(vllm: Sources, edits: Sequence[str], major: int, backend: str) -> None:
    def tensor(*args: Any, **kwargs: Any) -> None:
        return None

    asked: list[object] = []

    def capability(device: object) -> tuple[int, int]:
        asked.append(device)
        return major, 0

    torch = SimpleNamespace(
        empty=tensor, zeros=tensor, full=tensor, arange=tensor, uint8=None, int32=None
    )
    torch.cuda = SimpleNamespace(get_device_capability=capability)
    names = {"torch": torch, "_WORKSPACE_BYTES": 1}
    state = SimpleNamespace()
    vllm.take(SM90, "_SM90State.__init__", edits, names)(
        state, "cuda:1", 32, "bf16", 8, 2048, 512, 0, 0.0625
    )
    assert state.wrapper.backend == backend
    # the device of the wrapper, not the current one
    assert set(asked) <= {"cuda:1"}


@pytest.mark.parametrize(
    ("edits", "fp8", "planned"),
    [((), True, "uint8"), (("v1.e",), True, "float8_e4m3fn"), (("v1.e",), False, "bfloat16")],
)
def test_planned_type(vllm: Sources, edits: Sequence[str], fp8: bool, planned: str) -> None:
    class Impl(SimpleNamespace):
        pass

    class Base:
        def __init__(self, *args: object) -> None:
            pass

    impl = Impl(use_fp8_kv_cache=fp8, topk_indices_buffer=SimpleNamespace(shape=(8, 2048)))
    impl.num_heads, impl.kv_lora_rank, impl.qk_rope_head_dim, impl.scale = 32, 512, 0, 0.0625
    builder = vllm.take(
        SM90,
        "FlashInferMLASparseSM90Builder",
        edits,
        {
            "torch": Names(),
            "FlashInferMLASparseMetadataBuilder": Base,
            "FlashInferMLASparseSM90Metadata": object,
            "FlashInferMLASparseSM90Impl": Impl,
            "_SM90State": lambda *args, **kwargs: args,
        },
    )
    config = SimpleNamespace(
        compilation_config=SimpleNamespace(
            static_forward_context={"layer": SimpleNamespace(impl=impl)}
        ),
        scheduler_config=SimpleNamespace(max_num_batched_tokens=8, async_scheduling=False),
        model_config=SimpleNamespace(hf_text_config=SimpleNamespace(index_topk=2048)),
    )
    spec = SimpleNamespace(dtype="uint8" if fp8 else "bfloat16", tokens_per_state=4)
    # _SM90State(device, num_heads, kv_dtype, …)
    assert builder(spec, ["layer"], config, "cuda").state[2] == planned


def test_upstream_test_says_no_to_ours(vllm: Sources) -> None:
    """An applied patch must be told as applied, not as upstream's own fix."""
    assert "kv_plan_dtype" not in vllm.patched(SM90)

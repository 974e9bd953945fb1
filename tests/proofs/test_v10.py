"""v10: which top-k a GPU gets, and that the one in torch is exact, short rows and -1 included."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.proofs.grids import TORCH

if TYPE_CHECKING:
    from conftest import Sources

    Execute = Callable[[ast.Module, Mapping[str, Any]], dict[str, Any]]

INDEXER = "vllm/model_executor/layers/sparse_attn_indexer_kpool.py"
ALL = ("v7.a", "v7.b", "v10.i", "v10.h", "v10.d", "v10.p")
HELPERS = ("_persistent_topk_fits", "_decode_row_ends", "_exact_topk")
WIDTH = 12
GB10, H200 = 48, 132

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["lists", "torch"])
def torch(request: pytest.FixtureRequest) -> Any:
    """Torch, where it is installed, and its stand-in everywhere."""
    if request.param == "torch":
        return pytest.importorskip("torch", reason="torch is not installed here")
    return TORCH


def selection(vllm: Sources, edits: Sequence[str], kernel: str) -> ast.If:
    """The function's own statement that chooses a top-k, with both of its known kernels in it."""
    function = vllm.node(INDEXER, "sparse_attn_indexer_kpool", edits)
    found = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.If)
        and f"xpu_ops.{kernel}" in (text := ast.unparse(node))
        and f"_C.{kernel}" in text
        and "expand_pools" not in text
    ]
    return max(found, key=lambda node: len(ast.unparse(node)))


def module(vllm: Sources, execute: Execute, torch: Any, sms: int, exact: str) -> dict[str, Any]:
    """The names that v10.h puts into the module, and those that the statements need."""
    source = vllm.tree(INDEXER, ALL)
    names = {*HELPERS, "_EXACT_TOPK", "_EXACT_TOPK_ROWS", "_PERSISTENT_TOPK_MIN_SMS"}
    pieces = [
        node
        for node in source.body
        if (isinstance(node, ast.FunctionDef) and node.name in names)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names)
    ]
    platform = SimpleNamespace(
        is_cuda=lambda: True, is_xpu=lambda: False, num_compute_units=lambda: sms
    )
    environment = {"GLM53_EXACT_TOPK": exact} if exact else {}
    given = {
        "os": SimpleNamespace(environ=environment),
        "torch": torch,
        "current_platform": platform,
    }
    return execute(ast.Module(pieces, []), given)


def chosen(
    vllm: Sources,
    execute: Execute,
    edits: Sequence[str],
    kernel: str,
    *,
    sms: int = GB10,
    select_k: int = 512,
    exact: str = "",
) -> str:
    """The name of the top-k that the statement calls."""
    called: list[str] = []

    class Kernels:
        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *args: called.append(name)

    names = module(vllm, execute, TORCH, sms, exact)
    anything = SimpleNamespace(
        stride=lambda _: 1, get_simultaneous=lambda *_: (None,), max_seq_len=1, cu_seqlen_ks=None,
        cu_seqlen_ke=None,
    )  # fmt: skip
    names |= {
        "torch": SimpleNamespace(ops=SimpleNamespace(_C=Kernels()), uint8=None),
        "_decode_row_ends": lambda *args: None,
        "_exact_topk": lambda *args: called.append("exact"),
        "current_workspace_manager": lambda: anything,
        "RADIX_TOPK_WORKSPACE_SIZE": 1,
        "select_k": select_k,
        "logits": anything,
        "chunk": anything,
        "attn_metadata_narrowed": anything,
        **dict.fromkeys(("seq_lens", "topk_dst", "num_rows", "next_n")),
    }
    execute(ast.Module([selection(vllm, edits, kernel)], []), names)
    (name,) = called
    return name


class TestChoice:
    def test_upstream_takes_the_persistent_kernel_on_any_gpu(
        self, vllm: Sources, execute: Execute
    ) -> None:
        assert chosen(vllm, execute, (), "top_k_per_row_decode", sms=GB10) == "persistent_topk"

    @pytest.mark.parametrize(
        ("sms", "kernel"),
        [
            (GB10, "top_k_per_row_decode"),
            (77, "top_k_per_row_decode"),
            (78, "persistent_topk"),
            (H200, "persistent_topk"),
        ],
    )
    @pytest.mark.parametrize("select_k", [512, 1024, 2048])
    def test_decode(
        self, vllm: Sources, execute: Execute, sms: int, kernel: str, select_k: int
    ) -> None:
        name = chosen(vllm, execute, ALL, "top_k_per_row_decode", sms=sms, select_k=select_k)
        assert name == kernel

    def test_other_widths_as_before(self, vllm: Sources, execute: Execute) -> None:
        for edits in ((), ALL):
            name = chosen(vllm, execute, edits, "top_k_per_row_decode", sms=H200, select_k=128)
            assert name == "top_k_per_row_decode"

    @pytest.mark.parametrize("sms", [GB10, H200])
    @pytest.mark.parametrize("kernel", ["top_k_per_row_decode", "top_k_per_row_prefill"])
    def test_exact_on_request(self, vllm: Sources, execute: Execute, kernel: str, sms: int) -> None:
        assert chosen(vllm, execute, ALL, kernel, sms=sms, exact="1") == "exact"

    @pytest.mark.parametrize("exact", ["", "0"])
    def test_prefill_keeps_its_kernel(self, vllm: Sources, execute: Execute, exact: str) -> None:
        for edits in ((), ALL):
            name = chosen(vllm, execute, edits, "top_k_per_row_prefill", exact=exact)
            assert name == "top_k_per_row_prefill"


Rows = list[tuple[list[float], int, int]]  # logits, start, end

rows = st.lists(
    st.tuples(
        st.lists(
            st.one_of(
                st.integers(-50, 50).map(float), st.just(float("-inf")), st.just(float("inf"))
            ),
            min_size=WIDTH,
            max_size=WIDTH,
        ),
        st.integers(0, WIDTH),
        st.integers(0, WIDTH),
    ),
    min_size=1,
    max_size=6,
)


@quick
@given(rows=rows, k=st.integers(1, WIDTH + 4), prefill=st.booleans(), chunk=st.integers(1, 7))
def test_exact(
    vllm: Sources, execute: Execute, torch: Any, rows: Rows, k: int, prefill: bool, chunk: int
) -> None:
    """Scores of the selection equal the best scores of the row; the rest of it is -1."""
    names = module(vllm, execute, torch, GB10, "1")
    names["_EXACT_TOPK_ROWS"] = chunk
    logits = torch.tensor([list(row) for row, _, _ in rows], dtype=torch.float32)
    starts = [start if prefill else 0 for _, start, _ in rows]
    ends = [end for _, _, end in rows]
    out = torch.tensor([[99] * k for _ in rows], dtype=torch.int32)
    given_starts = torch.tensor(starts, dtype=torch.int32) if prefill else None
    names["_exact_topk"](logits, given_starts, torch.tensor(ends, dtype=torch.int32), out)
    for (scores, _, _), start, end, selected in zip(rows, starts, ends, out.tolist(), strict=True):
        inside = scores[start:end]
        count = min(k, len(inside))
        assert sorted(set(selected[:count])) == sorted(selected[:count])
        best = [inside[i] for i in selected[:count]]
        assert best == sorted(inside, reverse=True)[:count]
        assert selected[count:] == [-1] * (k - count)


@quick
@given(lens=st.lists(st.integers(0, 9), min_size=1, max_size=4), next_n=st.integers(1, 4))
def test_row_ends(
    vllm: Sources, execute: Execute, torch: Any, lens: list[int], next_n: int
) -> None:
    """One length a request: its rows end at length - next_n + 1, …, length, as in the kernels."""
    ends = module(vllm, execute, torch, GB10, "1")["_decode_row_ends"]
    requests = torch.tensor([[length] for length in lens], dtype=torch.int32)
    expected = [max(length - next_n + 1 + i, 0) for length in lens for i in range(next_n)]
    assert ends(requests, next_n, len(lens) * next_n).tolist() == expected
    # one length a row: they are the ends
    each = torch.tensor([[length] * next_n for length in lens], dtype=torch.int32)
    flat = [length for length in lens for _ in range(next_n)]
    assert ends(each, next_n, len(flat)).tolist() == flat


def test_upstream_test_says_no_to_ours(vllm: Sources) -> None:
    """An applied patch must be told as applied, not as upstream's own choice of kernels."""
    assert "get_indexer_topk(" not in vllm.patched(INDEXER)

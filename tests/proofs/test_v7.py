"""v7: what the indexer's top-k left unwritten never becomes a token index."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Sources

    Execute = Callable[[ast.Module, Mapping[str, Any]], dict[str, Any]]

INDEXER = "vllm/model_executor/layers/sparse_attn_indexer_kpool.py"
EXPAND = "vllm/models/glm5next/nvidia/ops/kpool_compress.py"
GARBAGE = 1_000_000
POOL = 4
WIDTH = 8  # pools a row
SEQ_LENS = (3, 6, 15, 40)  # tokens; 0, 1, 3 and 10 whole pools


class Tensor(list[list[int]]):
    """Rows of ints, made the way that torch would make them."""

    @classmethod
    def empty(cls, size: tuple[int, int], **_: object) -> Tensor:
        return cls.full(size, GARBAGE)  # what was in memory before

    @classmethod
    def full(cls, size: tuple[int, int], fill_value: int, **_: object) -> Tensor:
        return cls([fill_value] * size[1] for _row in range(size[0]))


class Int(int):
    """A scalar of the kernel: an int that can be cast."""

    def to(self, _: object) -> Int:
        return self


for _name in ("add", "radd", "sub", "mul", "floordiv", "mod"):

    def _operator(self: Int, other: int, _name: str = f"__{_name}__") -> Int:
        return Int(getattr(int, _name)(self, other))

    setattr(Int, f"__{_name}__", _operator)


class Pointer:
    """A flat array and a place in it."""

    def __init__(self, cells: list[int], at: int = 0) -> None:
        self.cells, self.at = cells, at

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.cells, self.at + offset)


def expand(vllm: Sources, edits: Sequence[str], pools: Tensor) -> list[list[int]]:
    """Runs the kernel, one column a program, over rows of pool ids."""
    at: list[int] = []

    def load(pointer: Pointer, mask: bool = True, other: int = 0) -> Int:
        return Int(pointer.cells[pointer.at] if mask else other)

    def store(pointer: Pointer, value: int, mask: bool) -> None:
        if mask:
            pointer.cells[pointer.at] = int(value)

    tl = SimpleNamespace(
        program_id=lambda axis: Int(at[axis]),
        arange=lambda start, _end: Int(start),
        where=lambda condition, yes, no: yes if condition else no,
        load=load,
        store=store,
        int32=None,
    )
    kernel = vllm.take(EXPAND, "_expand_pools_and_append_tail_kernel", edits, {"tl": tl})
    columns = WIDTH * POOL + POOL - 1
    out = [GARBAGE] * (len(pools) * columns)
    ids, lens = [i for row in pools for i in row], list(SEQ_LENS)
    for row in range(len(pools)):
        for column in range(columns):
            at[:] = [row, column]
            kernel(
                Pointer(ids), Pointer(lens), Pointer(out), WIDTH * POOL, columns,
                POOL_SIZE=POOL, BLOCK_COLS=1, pid_s0=WIDTH, out_s0=columns,
            )  # fmt: skip
    return [out[i : i + columns] for i in range(0, len(out), columns)]


def buffers(vllm: Sources, execute: Execute, edits: Sequence[str]) -> list[Tensor]:
    """What the function's own statements allocate as `pool_topk`: in prefill, then in decode."""
    function = vllm.node(INDEXER, "sparse_attn_indexer_kpool", edits)
    statements = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pool_topk"
    ]
    torch = SimpleNamespace(empty=Tensor.empty, full=Tensor.full, int32="int32")
    names = {
        "torch": torch,
        "num_rows": len(SEQ_LENS),
        "select_k": WIDTH,
        "logits": SimpleNamespace(device="cuda"),
    }
    statements.sort(key=lambda node: node.lineno)
    return [
        execute(ast.Module(body=[node], type_ignores=[]), names)["pool_topk"] for node in statements
    ]


def topk(pools: Tensor) -> Tensor:
    """A top-k that writes the pools a row has, and nothing behind them."""
    for row, length in zip(pools, SEQ_LENS, strict=True):
        valid = min(length // POOL, WIDTH)
        row[:valid] = range(valid)
    return pools


def out_of_range(rows: list[list[int]]) -> int:
    return sum(
        not -1 <= i < length for row, length in zip(rows, SEQ_LENS, strict=True) for i in row
    )


PATHS = pytest.mark.parametrize("path", [0, 1], ids=["prefill", "decode"])


def test_there_are_two_buffers(vllm: Sources, execute: Execute) -> None:
    assert len(buffers(vllm, execute, ())) == 2


@PATHS
def test_upstream_expands_what_was_in_memory(vllm: Sources, execute: Execute, path: int) -> None:
    pools = topk(buffers(vllm, execute, ())[path])
    unwritten = 8 + 7 + 5  # pools of the rows with 0, 1 and 3
    assert out_of_range(expand(vllm, (), pools)) == unwritten * POOL


@PATHS
@pytest.mark.parametrize("edits", [("v7.a", "v7.b"), ("v7.c",), ("v7.a", "v7.b", "v7.c")])
def test_either_half_leaves_none(
    vllm: Sources, execute: Execute, path: int, edits: Sequence[str]
) -> None:
    pools = topk(buffers(vllm, execute, edits)[path])
    assert out_of_range(expand(vllm, edits, pools)) == 0


@pytest.mark.parametrize(("edit", "path"), [("v7.a", 0), ("v7.b", 1)])
def test_each_edit_fills_its_own_buffer(
    vllm: Sources, execute: Execute, edit: str, path: int
) -> None:
    filled = [buffer[0][0] == -1 for buffer in buffers(vllm, execute, (edit,))]
    assert filled == [path == 0, path == 1]


def test_valid_rows_are_expanded_as_before(vllm: Sources) -> None:
    pools = topk(Tensor.full((len(SEQ_LENS), WIDTH), -1))
    rows = expand(vllm, ("v7.c",), pools)
    assert rows == expand(vllm, (), pools)
    # the whole pools, then the tail behind the history region
    assert [i for i in rows[2] if i >= 0] == list(range(15))

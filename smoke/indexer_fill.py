"""What the indexer's top-k left unwritten never becomes a token index.

The two statements that make the top-k's buffer are run with a `torch.empty` that returns old
memory: all of it must come out as -1. Then rows with such ids go through the kernel that expands
pools to tokens: ids beyond a row's own pools must be dropped, and all others kept.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from typing import Any

import probe as contract
import vllm_module
from probe import CannotRun, Probe

FUNCTION = "sparse_attn_indexer_kpool"
POOL, SELECTED = 4, 512
GARBAGE = 1_000_000
# tokens of each row: no pool, one, many, more than are selected; with and without a tail
LENGTHS = (0, 3, 4, 15, 16, 2047, 2048, 2051, 25_000, 262_144)
PLANTS = {
    "empty-buffer": "the buffer is not filled",
    "lost-id": "one token of the expanded result is another one",
}


class OldMemory:
    """torch, but what `empty` returns holds ids of another request."""

    def __init__(self, torch: Any, plant: str):
        self._torch, self._plant = torch, plant

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def empty(self, size: Any, **options: Any) -> Any:
        return self._torch.full(size, GARBAGE, **options)

    def full(self, size: Any, fill_value: int, **options: Any) -> Any:
        value = GARBAGE if self._plant == "empty-buffer" else fill_value
        return self._torch.full(size, value, **options)


def buffers(module: Any, torch: Any, device: Any, plant: str) -> list[Any]:
    """What the function's own statements make as `pool_topk`: in prefill, then in decode."""
    statements = [
        node
        for node in ast.walk(vllm_module.function(module, FUNCTION))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pool_topk"
    ]
    names = {
        "torch": OldMemory(torch, plant),
        "num_rows": len(LENGTHS),
        "select_k": SELECTED,
        "logits": torch.zeros(1, device=device),
    }
    statements.sort(key=lambda node: node.lineno)
    return [vllm_module.execute(node, module, names)["pool_topk"] for node in statements]


def pool_ids(torch: Any, device: Any) -> Any:
    """Selections [rows, SELECTED]: a row's own pools first, then ids that lie beyond them."""
    ids = torch.full((len(LENGTHS), SELECTED), GARBAGE, dtype=torch.int64)
    for row, length in enumerate(LENGTHS):
        own = min(length // POOL, SELECTED)
        ids[row, :own] = torch.arange(own).flip(0)
        if own < SELECTED:
            ids[row, own] = length // POOL  # the first that is not there yet
        if own + 1 < SELECTED:
            ids[row, -1] = -1
    return ids.to(device)


def expanded(torch: Any, ids: Any) -> Any:
    """What the kernel must make of the selections, computed cell by cell: [rows, columns] int32."""
    lengths = torch.tensor(LENGTHS, device=ids.device)[:, None]
    pools = lengths // POOL
    kept = torch.where((ids >= 0) & (ids < pools), ids, -1).repeat_interleave(POOL, 1)
    offsets = torch.arange(SELECTED * POOL, device=ids.device) % POOL
    history = torch.where(kept >= 0, kept * POOL + offsets, -1)
    tail = pools * POOL + torch.arange(POOL - 1, device=ids.device)
    return torch.cat([history, torch.where(tail < lengths, tail, -1)], 1).to(torch.int32)


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        try:
            import torch
        except ImportError as error:
            raise CannotRun(f"torch cannot be imported: {error}") from None
        probe.stand_ins.append("Triton's interpreter, on the CPU")
        device = "cpu"
    else:
        torch, device = contract.gpu(probe, given.capability), "cuda"
    indexer = vllm_module.load(probe, vllm_module.INDEXER, given.root)
    kpool = vllm_module.load(probe, vllm_module.KPOOL, given.root)

    made = buffers(indexer, torch, device, probe.plant)
    probe.number("buffers", len(made), equals=2)
    for name, buffer in zip(("prefill", "decode"), made, strict=False):
        probe.number(f"unwritten_{name}", int((buffer != -1).sum()), equals=0)

    ids = pool_ids(torch, device)
    lengths = torch.tensor(LENGTHS, dtype=torch.int32, device=device)
    out = kpool.expand_pools_and_append_tail(ids, lengths, POOL)
    if probe.plant == "lost-id":
        out[5, 7] += 1
    outside = (out >= lengths[:, None]) | (out < -1)
    probe.number("ids_out_of_range", int(outside.sum()), equals=0)
    probe.number("wrong_ids", int((out != expanded(torch, ids)).sum()), equals=0)


if __name__ == "__main__":
    options = vllm_module.options
    sys.exit(contract.run("indexer_fill", str(__doc__), body, PLANTS, options))

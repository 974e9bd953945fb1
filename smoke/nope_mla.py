"""Sparse MLA without a rotary part: four tokens, a top-k of 2,048, plain and as a CUDA graph.

In the graph the top-k buffer's rows end in -1 behind the valid entries, as the indexer leaves
them. It is captured once and replayed after a new plan with other lengths, rows and queries, as
vLLM does.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import mla
import probe as contract
from probe import Probe

TOKENS, TOPK = 4, 2048
LENGTHS = (128, 2048)
PLANTS = mla.PLANTS | {"stale-graph": "the graph is not replayed after the new plan"}


class Graph:
    """The wrapper with the reserved buffers that a captured run reads."""

    def __init__(self, torch: Any, plant: str):
        from flashinfer.mla import BatchMLAPagedAttentionWrapper

        ints = {"dtype": torch.int32, "device": "cuda"}
        self.torch, self.plant = torch, plant
        self.indices = torch.full((TOKENS, TOPK), -1, **ints)
        self.q = torch.zeros((TOKENS, mla.HEADS, mla.CKV), dtype=torch.bfloat16, device="cuda")
        self.cache = torch.zeros((mla.CACHE_ROWS, 1, mla.CKV), dtype=torch.bfloat16, device="cuda")
        self.out = torch.zeros_like(self.q)
        self.wrapper = BatchMLAPagedAttentionWrapper(
            torch.empty(mla.WORKSPACE_BYTES, dtype=torch.uint8, device="cuda"),
            use_cuda_graph=True,
            qo_indptr=torch.zeros(TOKENS + 1, **ints),
            kv_indptr=torch.zeros(TOKENS + 1, **ints),
            kv_indices=self.indices.view(-1),
            kv_len_arr=torch.zeros(TOKENS, **ints),
            backend="fa2",
        )
        self.graph = torch.cuda.CUDAGraph()

    def set(self, kernel: mla.Kernel) -> None:
        """Put a case into the buffers and plan it."""
        torch, kv = self.torch, kernel.shape.kv
        self.indices.fill_(-1)
        self.indices[:, :kv] = kernel.indices
        self.q.copy_(kernel.q)
        self.cache.copy_(kernel.cache)
        steps = torch.arange(TOKENS + 1, dtype=torch.int32)
        self.wrapper.plan(
            steps,
            steps * TOPK,
            self.indices.view(-1),
            torch.tensor(kernel.lengths, dtype=torch.int32),
            mla.HEADS,
            mla.CKV,
            mla.KPE,
            1,
            False,
            mla.SCALE * (1.01 if self.plant == "scale" else 1),
            torch.bfloat16,
            torch.bfloat16,
        )

    def run(self) -> None:
        """Run into `out`."""
        self.wrapper.run(*mla.run_arguments(self.torch, self.q, self.cache), out=self.out)

    def capture(self) -> None:
        """Capture one run, after one that is not."""
        stream = self.torch.cuda.Stream()
        stream.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(stream):
            self.run()
        self.torch.cuda.current_stream().wait_stream(stream)
        with self.torch.cuda.graph(self.graph):
            self.run()


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    torch = contract.gpu(probe, given.capability)
    mla.flashinfer(probe)
    mla.build(torch, ["bf16"])
    for kv in LENGTHS:
        for seed in (0, 1):
            shape = mla.decode(TOKENS, kv)
            mla.compare(probe, torch, shape, "bf16", seed, f"plain {TOKENS}x{kv} seed {seed}")

    graph = Graph(torch, probe.plant)
    for number, kv in enumerate((*LENGTHS, *LENGTHS)):
        shape = mla.decode(TOKENS, kv)
        data = mla.inputs(torch, shape, torch.bfloat16, 10 + number)
        graph.set(mla.Kernel(torch, shape, data, probe.plant))
        if number == 0:
            graph.capture()
        if number == 0 or probe.plant != "stale-graph":
            graph.graph.replay()
        torch.cuda.synchronize()
        worst, whole = mla.distance(torch, graph.out, mla.reference(torch, shape, data))
        name = f"graph {TOKENS}x{kv} replay {number + 1}"
        probe.case(name, worst_head=worst, frobenius=whole)
    mla.assert_near(probe, "plain ")
    mla.assert_near(probe, "graph ")


if __name__ == "__main__":
    sys.exit(contract.run("nope_mla", str(__doc__), body, PLANTS))

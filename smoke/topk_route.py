"""Which top-k the indexer's decode takes on SM121's 48 SMs, and that the one in torch is exact.

The statement that chooses is run with kernels that only say their name. The exact top-k
(GLM53_EXACT_TOPK=1) is run on the GPU, decode and prefill, and replayed from a CUDA graph.
"""

from __future__ import annotations

import argparse
import ast
import sys
from types import SimpleNamespace
from typing import Any

import probe as contract
import vllm_module
from probe import Broken, Probe

FUNCTION = "sparse_attn_indexer_kpool"
SM121_SMS, LARGE_SMS = 48, 132
ROWS, COLUMNS, SELECTED = 56, 32_768, 512
PLANTS = {
    "unpatched": "the kernel is the persistent one on any GPU",
    "wrong-column": "one selected column of the exact top-k is another one",
    "short": "the last selected column of every row is lost",
}


class Kernels:
    """torch.ops._C whose members note their names."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.called.append(name)


def decode_kernel(module: Any, sms: int) -> str:
    """The name of the kernel that decode calls on a GPU with that many SMs. Raises Broken."""
    candidates = [
        node
        for node in ast.walk(vllm_module.function(module, FUNCTION))
        if isinstance(node, ast.If)
        and "xpu_ops.top_k_per_row_decode" in (text := ast.unparse(node))
        and "_C.top_k_per_row_decode" in text
        and "expand_pools" not in text
    ]
    if not candidates:
        raise Broken(f"{FUNCTION} chooses its kernel in another way than is known here")
    statement = max(candidates, key=lambda node: len(ast.unparse(node)))
    kernels, anything = Kernels(), vllm_module.StandIn()
    platform = SimpleNamespace(
        is_cuda=lambda: True, is_xpu=lambda: False, num_compute_units=lambda *_: sms
    )
    workspace = SimpleNamespace(get_simultaneous=lambda *_: (None,))
    names = {
        "torch": SimpleNamespace(ops=SimpleNamespace(_C=kernels), uint8=None),
        "current_platform": platform,
        "current_workspace_manager": lambda: workspace,
        "select_k": SELECTED,
        **dict.fromkeys(
            ("logits", "attn_metadata_narrowed", "seq_lens", "topk_dst", "num_rows", "next_n"),
            anything,
        ),
    }
    # A helper of the module reads the platform from the module.
    before = module.current_platform
    module.current_platform = platform
    try:
        vllm_module.execute(statement, module, names)
    finally:
        module.current_platform = before
    (name,) = kernels.called
    return name


def wrong_rows(torch: Any, scores: Any, starts: Any, ends: Any, out: Any) -> int:
    """How many rows are not the best SELECTED columns of [start, end), best first, -1 behind."""
    wrong = 0
    for row, start, end in zip(range(ROWS), starts.tolist(), ends.tolist(), strict=True):
        inside = scores[row, start : max(start, end)]
        count = min(SELECTED, len(inside))
        chosen = out[row, :count].long()
        right = (
            bool((out[row, count:] == -1).all())
            and bool(((chosen >= 0) & (chosen < len(inside))).all())
            and len(set(chosen.tolist())) == count
            and torch.equal(inside[chosen], inside.sort(descending=True).values[:count])
        )
        wrong += not right
    return wrong


def exact(probe: Probe, torch: Any, module: Any) -> int:
    """Run the exact top-k on hard rows; return how many were wrong."""
    generator = torch.Generator(device="cuda").manual_seed(0)
    scores = torch.randn((ROWS, COLUMNS), generator=generator, device="cuda")
    scores[::7, ::3] = float("-inf")  # scored so, and still inside of the row
    lengths = [0, 1, SELECTED - 1, SELECTED, SELECTED + 1, COLUMNS]
    ends = torch.randint(0, COLUMNS + 1, (ROWS,), generator=generator, device="cuda")
    ends = ends.to(torch.int32)
    ends[: len(lengths)] = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    none = torch.zeros_like(ends)
    total = 0
    for name, starts in (("decode", none), ("prefill", ends // 3)):
        given, out = (
            scores.clone(),
            torch.full((ROWS, SELECTED), 99, dtype=torch.int32, device="cuda"),
        )
        call = (given, None if starts is none else starts, ends, out)
        module._exact_topk(*call)
        first = out.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            module._exact_topk(*call)
        given.copy_(scores)
        out.fill_(99)
        graph.replay()
        torch.cuda.synchronize()
        for kind, selected in ((name, first), (f"{name} graph", out)):
            if probe.plant == "wrong-column":
                selected[3, 5] = (selected[3, 5] + 1) % SELECTED
            if probe.plant == "short":
                selected[:, -1] = -1
            wrong = wrong_rows(torch, scores, starts, ends, selected)
            probe.case(kind, rows=ROWS, columns=COLUMNS, wrong_rows=wrong)
            total += wrong
    return total


def body(probe: Probe, given: argparse.Namespace) -> None:
    """Measure."""
    torch = contract.gpu(probe, given.capability)
    module = vllm_module.load(probe, vllm_module.INDEXER, given.root)
    for sms, wanted in ((SM121_SMS, 0), (LARGE_SMS, 1)):
        kernel = "persistent_topk" if probe.plant == "unpatched" else decode_kernel(module, sms)
        probe.facts[f"kernel on {sms} SMs"] = kernel
        probe.number(f"persistent_{sms}", int(kernel == "persistent_topk"), equals=wanted)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    probe.facts["SMs of this GPU"] = str(sms)
    if not hasattr(module, "_exact_topk"):
        raise Broken(f"{module.__name__} has no _exact_topk: not patched")
    probe.number("wrong_rows", exact(probe, torch, module), equals=0)


if __name__ == "__main__":
    options = vllm_module.options
    sys.exit(contract.run("topk_route", str(__doc__), body, PLANTS, options))

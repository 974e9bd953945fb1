"""Sparse MLA without a rotary part, as FlashInfer's FA2 kernel runs it, beside an fp32 reference.

Shapes, scale and tolerances are those that were measured to separate right from wrong
(docs/smoke.md). A shape is a batch of requests with page size 1, so that the page table is the
list of selected rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from probe import Broken, CannotRun, Probe

HEADS, CKV, KPE = 32, 512, 0
SCALE = 256**-0.5  # a power of two: any other is rounded to bf16 on the way
CACHE_ROWS = 65_536
WORKSPACE_BYTES = 128 * 1024 * 1024

WORST_HEAD = 0.006
FROBENIUS = 0.004

PLANTS = {
    "dropped-row": "the kernel never sees the last selected row of the first request",
    "wrong-page": "the first page of the first request is another one",
    "scale": "the softmax scale is 1 % larger",
    "nan": "one selected row of the kernel's cache is NaN",
}


@dataclass(frozen=True)
class Shape:
    """Requests of equal size: `rows` query rows each, over `kv` selected rows of the cache."""

    requests: int
    rows: int
    kv: int
    causal: bool = False

    def __str__(self) -> str:
        if self.causal:
            return f"causal {self.kv}"
        return f"decode {self.requests}x{self.kv}"


def decode(requests: int, kv: int) -> Shape:
    """One query row a request."""
    return Shape(requests, 1, kv)


def causal(rows: int) -> Shape:
    """One request whose rows see themselves and what stands before them."""
    return Shape(1, rows, rows, causal=True)


@dataclass
class Inputs:
    """q [tokens, heads, ckv] bf16; cache [rows, 1, ckv]; indices [requests, kv] into the cache."""

    q: Any
    cache: Any
    indices: Any


def inputs(torch: Any, shape: Shape, dtype: Any, seed: int, device: str = "cuda") -> Inputs:
    """Make the inputs of one case: the same ones on every run."""
    generator = torch.Generator(device=device).manual_seed(seed)

    def normal(*size: int) -> Any:
        return torch.randn(size, generator=generator, device=device).to(torch.bfloat16)

    cache = normal(CACHE_ROWS, 1, CKV).to(dtype)
    q = normal(shape.requests * shape.rows, HEADS, CKV)
    selected = [
        torch.randperm(CACHE_ROWS, generator=generator, device=device)[: shape.kv]
        for _ in range(shape.requests)
    ]
    return Inputs(q, cache, torch.stack(selected).to(torch.int32))


def reference(torch: Any, shape: Shape, data: Inputs) -> Any:
    """Attention in fp32 over the cache as it is stored, dequantised: [tokens, heads, ckv]."""
    out = []
    for request in range(shape.requests):
        rows = data.cache[data.indices[request].long(), 0].float()
        first = request * shape.rows
        q = data.q[first : first + shape.rows].float()
        scores = torch.einsum("qhc,kc->hqk", q, rows) * SCALE
        if shape.causal:
            at = torch.arange(shape.rows, device=q.device)[:, None] + shape.kv - shape.rows
            scores.masked_fill_(torch.arange(shape.kv, device=q.device) > at, float("-inf"))
        out.append(torch.einsum("hqk,kc->qhc", scores.softmax(-1), rows))
    return torch.cat(out)


def distance(torch: Any, got: Any, want: Any) -> tuple[float, float]:
    """Return the worst relative norm of a (token, head) and the relative Frobenius norm, or NaN."""
    if not torch.isfinite(got).all():
        return float("nan"), float("nan")
    difference = got.float() - want
    heads = difference.norm(dim=-1) / want.norm(dim=-1)
    return float(heads.max()), float(difference.norm() / want.norm())


def assert_near(probe: Probe, prefix: str = "") -> None:
    """Assert the tolerances over all cases of the probe whose name starts with the prefix."""
    cases = [c["numbers"] for c in probe.cases if c["case"].startswith(prefix)]
    for name, limit in (("worst_head", WORST_HEAD), ("frobenius", FROBENIUS)):
        values = [numbers.get(name, float("nan")) for numbers in cases]
        finite = all(value == value for value in values) and values
        probe.number(_key(prefix, name), max(values) if finite else float("nan"), max=limit)


def _key(prefix: str, name: str) -> str:
    return f"{prefix.strip()}_{name}" if prefix else name


def flashinfer(probe: Probe) -> Any:
    """Import FlashInfer. Raises CannotRun."""
    try:
        import flashinfer
    except ImportError as error:
        raise CannotRun(f"flashinfer cannot be imported: {error}") from None
    probe.facts["flashinfer"] = str(flashinfer.__version__)
    return flashinfer


def module_arguments(torch: Any, kv: str) -> tuple[Any, ...]:
    """What FlashInfer's generator and its loader are asked for; `kv` is bf16 or fp8."""
    bf16, dtype = torch.bfloat16, dtypes(torch)[kv]
    return ("fa2", bf16, dtype, bf16, torch.int32, CKV, KPE, False)


def dtypes(torch: Any) -> dict[str, Any]:
    """The types of a cache, by the names used here."""
    return {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


def build(torch: Any, kinds: Sequence[str]) -> list[str]:
    """Compile the modules side by side, once; nothing to do when they are. Raises Broken.

    Each in its own build directory, where plan() looks. FlashInfer's build_jit_specs() runs ninja
    in the directory above, whose log plan() does not know: it would compile all of it again.
    A failed build would be tried again at every plan(): whoever calls this must stop.
    """
    from flashinfer.jit.attention import gen_batch_mla_module

    specs = [gen_batch_mla_module(*module_arguments(torch, kind)) for kind in kinds]
    with ThreadPoolExecutor(len(specs)) as pool:
        builds = [pool.submit(spec.build, verbose=False, need_lock=True) for spec in specs]
    for done in builds:
        error = done.exception()
        if error is not None:
            print(error, file=sys.stderr, flush=True)
            lines = [line for line in str(error).splitlines() if "error" in line.lower()]
            raise Broken(f"FlashInfer's JIT build failed: {(lines or ['see above'])[0]}"[:500])
    return [str(spec.name) for spec in specs]


class Kernel:
    """FlashInfer's wrapper over one case's inputs, with the planted fault, if any."""

    def __init__(self, torch: Any, shape: Shape, data: Inputs, plant: str):
        from flashinfer.mla import BatchMLAPagedAttentionWrapper

        self.torch, self.shape, self.plant = torch, shape, plant
        self.cache, indices, self.lengths = data.cache, data.indices, [shape.kv] * shape.requests
        if plant == "dropped-row":
            self.lengths[0] -= 1
        if plant == "wrong-page":
            free = torch.ones(CACHE_ROWS, dtype=torch.bool, device="cuda")
            free[indices[0].long()] = False
            indices = indices.clone()
            indices[0, 0] = free.nonzero()[0, 0]
        if plant == "nan":
            self.cache = data.cache.clone()
            self.cache[indices[0, 0].long()] = float("nan")
        self.indices, self.q = indices, data.q
        workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        self.wrapper = BatchMLAPagedAttentionWrapper(workspace, backend="fa2")

    def plan(self) -> None:
        """Plan as vLLM does: page size 1, a request's rows are its selection."""
        shape, ints = self.shape, {"dtype": self.torch.int32}
        steps = self.torch.arange(shape.requests + 1, **ints)
        self.wrapper.plan(
            steps * shape.rows,
            steps * shape.kv,
            self.indices.reshape(-1),
            self.torch.tensor(self.lengths, **ints),
            HEADS,
            CKV,
            KPE,
            1,
            shape.causal,
            SCALE * (1.01 if self.plant == "scale" else 1),
            self.torch.bfloat16,
            self.cache.dtype,
        )

    def run(self) -> Any:
        """Return the output, [tokens, heads, ckv] bf16."""
        return self.wrapper.run(
            *run_arguments(self.torch, self.q, self.cache), **scales(self.cache)
        )


def run_arguments(torch: Any, q: Any, cache: Any) -> tuple[Any, Any, Any, Any]:
    """q and cache, each followed by its empty rotary part."""
    return q, q[..., :KPE].contiguous(), cache, cache[..., :KPE].contiguous()


def scales(cache: Any) -> dict[str, float]:
    """The scales that an fp8 cache needs."""
    return {"ckv_scale": 1.0, "kpe_scale": 1.0} if cache.element_size() == 1 else {}


def compare(probe: Probe, torch: Any, shape: Shape, kind: str, seed: int, label: str = "") -> None:
    """Run one case through the kernel and record how far it is from the reference."""
    data = inputs(torch, shape, dtypes(torch)[kind], seed)
    kernel = Kernel(torch, shape, data, probe.plant)
    kernel.plan()
    got = kernel.run()
    torch.cuda.synchronize()
    worst, whole = distance(torch, got, reference(torch, shape, data))
    probe.case(label or f"{shape} seed {seed}", worst_head=worst, frobenius=whole)

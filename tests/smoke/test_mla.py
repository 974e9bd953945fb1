"""The reference and the tolerances of the MLA probes, on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed here")

KV = 256
HEALTHY, FAULTY = True, False


def kernel(smoke: Any, shape: Any, data: Any, *, scale: float = 1.0, rows: Any = None) -> Any:
    """Attention as a bf16 kernel does it: products in fp32, weights and result rounded to bf16."""
    cache, out = data.cache[:, 0].float(), []
    for request in range(shape.requests):
        selected = data.indices[request].long() if rows is None else rows[request].long()
        kv = cache[selected]
        first = request * shape.rows
        q = data.q[first : first + shape.rows].float()
        scores = torch.einsum("qhc,kc->hqk", q, kv) * smoke.mla.SCALE * scale
        if shape.causal:
            hidden = torch.ones(shape.rows, len(selected)).triu(1 + len(selected) - shape.rows)
            scores.masked_fill_(hidden.bool(), float("-inf"))
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        sums = weights.sum(-1).T[..., None]
        part = torch.einsum("hqk,kc->qhc", weights.to(torch.bfloat16).float(), kv)
        out.append((part / sums).to(torch.bfloat16))
    return torch.cat(out)


@pytest.fixture
def small(smoke: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with fewer heads and a smaller cache."""
    monkeypatch.setattr(smoke.mla, "CACHE_ROWS", 4096)
    monkeypatch.setattr(smoke.mla, "HEADS", 8)
    return smoke.mla


def shapes(mla: Any) -> list[Any]:
    return [mla.decode(3, KV), mla.decode(1, 2048), mla.causal(128), mla.Shape(2, 5, 64, True)]


@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_reference_is_attention(small: Any, kind: str) -> None:
    """Against torch's own, in fp64, over the dequantised cache."""
    for shape in shapes(small):
        data = small.inputs(torch, shape, small.dtypes(torch)[kind], 3, "cpu")
        got = small.reference(torch, shape, data)
        rows = shape.rows
        for request in range(shape.requests):
            kv = data.cache[data.indices[request].long(), 0].to(torch.float64)
            q = data.q[request * rows : (request + 1) * rows].to(torch.float64).transpose(0, 1)
            mask = torch.ones(rows, shape.kv, dtype=torch.bool)
            if shape.causal:
                mask = mask.tril(shape.kv - rows)
            want = torch.nn.functional.scaled_dot_product_attention(
                q, kv.expand(small.HEADS, -1, -1), kv.expand(small.HEADS, -1, -1), mask,
                scale=small.SCALE,
            ).transpose(0, 1)  # fmt: skip
            part = got[request * rows : (request + 1) * rows]
            assert float((part - want).norm() / want.norm()) < 1e-5


def test_inputs_are_the_same_on_every_run(small: Any) -> None:
    shape = small.decode(2, KV)
    one, two = (small.inputs(torch, shape, torch.bfloat16, 7, "cpu") for _ in range(2))
    assert torch.equal(one.q, two.q)
    assert torch.equal(one.cache, two.cache)
    assert torch.equal(one.indices, two.indices)
    other = small.inputs(torch, shape, torch.bfloat16, 8, "cpu")
    assert not torch.equal(one.indices, other.indices)


def verdict(smoke: Any, shape: Any, data: Any, got: Any) -> bool:
    told = smoke.probe.Probe("sample")
    mla = smoke.mla
    worst, whole = mla.distance(torch, got, mla.reference(torch, shape, data))
    told.case(str(shape), worst_head=worst, frobenius=whole)
    mla.assert_near(told)
    return not told.faults


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("kind", ["bf16", "fp8"])
def test_tolerances(smoke: Any, small: Any, kind: str, seed: int) -> None:
    """A right kernel keeps them, and each planted fault breaks them, in the hardest shapes."""
    for shape in shapes(small):
        data = small.inputs(torch, shape, small.dtypes(torch)[kind], seed, "cpu")
        assert verdict(smoke, shape, data, kernel(smoke, shape, data)) is HEALTHY
        assert verdict(smoke, shape, data, kernel(smoke, shape, data, scale=1.01)) is FAULTY
        wrong = data.indices.clone()
        wrong[0, 0] = (wrong[0, 0] + 1) % small.CACHE_ROWS
        assert verdict(smoke, shape, data, kernel(smoke, shape, data, rows=wrong)) is FAULTY
        if not shape.causal:
            dropped = [row[:-1] if i == 0 else row for i, row in enumerate(data.indices)]
            assert verdict(smoke, shape, data, kernel(smoke, shape, data, rows=dropped)) is FAULTY


def test_the_undequantised_cache_is_another(smoke: Any, small: Any) -> None:
    """An fp8 result against the cache before it was rounded is far outside."""
    shape = small.decode(2, KV)
    data = small.inputs(torch, shape, torch.bfloat16, 0, "cpu")
    rounded = small.Inputs(data.q, data.cache.to(torch.float8_e4m3fn), data.indices)
    assert verdict(smoke, shape, data, kernel(smoke, shape, rounded)) is FAULTY
    assert verdict(smoke, shape, rounded, kernel(smoke, shape, rounded)) is HEALTHY


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_one_value_that_is_not_finite(smoke: Any, small: Any, value: float) -> None:
    shape = small.decode(2, KV)
    data = small.inputs(torch, shape, torch.bfloat16, 0, "cpu")
    got = kernel(smoke, shape, data)
    got[1, 3, 17] = value
    told = smoke.probe.Probe("sample")
    worst, whole = small.distance(torch, got, small.reference(torch, shape, data))
    told.case("one", worst_head=worst, frobenius=whole)
    small.assert_near(told)
    assert told.faults == ["worst_head is not finite", "frobenius is not finite"]
    assert told.numbers == {}


def test_no_case_is_no_pass(smoke: Any) -> None:
    told = smoke.probe.Probe("sample")
    smoke.mla.assert_near(told, "graph ")
    assert told.faults == ["graph_worst_head is not finite", "graph_frobenius is not finite"]


def test_the_shapes_that_were_agreed(smoke: Any) -> None:
    assert [str(shape) for shape in smoke.fa2_rows.SHAPES] == [
        "decode 6x2048", "decode 1x2048", "decode 64x64", "decode 64x2048",
        "causal 128", "causal 256", "causal 512",
    ]  # fmt: skip
    assert {"decode 3x64", "causal 64", "causal 128", "causal 1024", "decode 6x2048"} == {
        str(shape) for shape in smoke.fa2_fp8_kv.SHAPES
    }
    assert (smoke.nope_mla.TOKENS, smoke.nope_mla.TOPK) == (4, 2048)
    assert smoke.nope_mla.LENGTHS == (128, 2048)
    assert len(smoke.fa2_rows.SEEDS) == len(smoke.fa2_fp8_kv.SEEDS) == 2
    mla = smoke.mla
    assert (mla.HEADS, mla.CKV, mla.KPE, mla.CACHE_ROWS) == (32, 512, 0, 65_536)
    assert (mla.WORST_HEAD, mla.FROBENIUS, mla.SCALE) == (0.006, 0.004, 0.0625)

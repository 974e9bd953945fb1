"""v11.A: the state handed to a drafter is the one that a model cut off there would end with."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import Sources

MODEL = "vllm/models/glm5next/nvidia/model.py"
INTERFACES = "vllm/model_executor/models/interfaces.py"
ALL = tuple(f"v11.A{i}" for i in range(1, 7))
STREAMS = 4

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@dataclass(frozen=True)
class State:
    """Exact numbers in the place of a tensor: one, or one for each residual stream."""

    values: tuple[Fraction, ...]
    sharded: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,)

    def __getitem__(self, key: object) -> State:
        return self

    def __add__(self, other: State) -> State:
        pairs = zip(self.values, other.values, strict=True)
        return State(tuple(a + b for a, b in pairs), self.sharded)


def expand(state: State, n: int) -> State:
    return State(state.values * n, state.sharded)


def contract(state: State, n: int) -> State:
    assert len(state.values) == n
    return State((sum(state.values, Fraction(0)) / n,), state.sharded)


def gather(state: State) -> State:
    assert state.sharded
    return State(state.values)


def shard(state: State) -> State:
    return State(state.values, sharded=True)


@dataclass(frozen=True)
class Mixing:
    """The operations of upstream's streams, with any weights: a post and a pre, alone or fused."""

    seed: int

    def pre(self, streams: State) -> tuple[Any, Any, State]:
        post = [Fraction(self.seed + i, 7) for i in range(STREAMS)]
        comb = [
            [Fraction((self.seed * i + j) % 5, 3) for j in range(STREAMS)] for i in range(STREAMS)
        ]
        weighted = sum((v * (i + self.seed) for i, v in enumerate(streams.values)), Fraction(0))
        return post, comb, State((weighted,), streams.sharded)

    @staticmethod
    def post(x: State, residual: State, post: Any, comb: Any) -> State:
        (value,) = x.values
        rows = zip(post, comb, strict=True)
        mixed = [
            p * value + sum((c * r for c, r in zip(row, residual.values, strict=True)), Fraction(0))
            for p, row in rows
        ]
        return State(tuple(mixed), x.sharded)


def times(factor: int) -> Any:
    def module(x: State | None = None, hidden_states: State | None = None, **_: object) -> State:
        given = x if x is not None else hidden_states
        assert given is not None
        return State(tuple(v * factor + 1 for v in given.values), given.sharded)

    return module


def build(
    vllm: Sources, edits: Sequence[str], num_layers: int, parallel: bool, mhc: bool = True
) -> SimpleNamespace:
    """A model of upstream's own forward passes, over layers whose weights are numbers."""
    names = {
        "get_pp_group": lambda: SimpleNamespace(is_first_rank=True, is_last_rank=True),
        "hc_expand": expand,
        "hc_contract": contract,
        "sp_all_gather": gather,
        "sp_reduce_scatter": shard,
        "sp_shard": shard,
    }
    of_layer = vllm.take(MODEL, "Glm5NextDecoderLayer.forward", edits, names)
    of_model = vllm.take(MODEL, "Glm5NextModel.forward", edits, names)
    layers = []
    for index in range(num_layers):
        weight = SimpleNamespace(weight=SimpleNamespace(data=None), variance_epsilon=0)
        # Two mixings a layer, before attention and before the MLP: told apart by their fn.
        layer = SimpleNamespace(
            mhc=mhc, is_mtp_layer=False, layer_idx=index, num_hidden_layers=num_layers, n=STREAMS,
            is_sequence_parallel=parallel, _mlp_is_moe=False, input_layernorm=weight,
            post_attention_layernorm=weight, self_attn=times(2 + index), mlp=times(3 + index),
            hc_attn_fn=2 * index + 1, hc_ffn_fn=2 * index + 2, hc_post=Mixing.post,
            hc_attn_scale=0, hc_attn_base=0, hc_ffn_scale=0, hc_ffn_base=0,
        )  # fmt: skip
        layer.hc_pre = lambda x, fn, *_, **__: Mixing(fn).pre(x)

        def fused(
            x: State, residual: State, post: Any, comb: Any, fn: int, *_: Any, **__: Any
        ) -> Any:
            streams = Mixing.post(x, residual, post, comb)
            return (streams, *Mixing(fn).pre(streams))

        layer.hc_fused_post_pre = fused
        if not mhc:
            layer.input_layernorm = times(1)
            layer.post_attention_layernorm = lambda x, residual: (x, x + residual)
        layers.append(
            lambda positions, hidden, residual, post, comb, layer=layer: of_layer(
                layer, positions, hidden, residual, post, comb
            )
        )
        layers[-1].hc_post, layers[-1].n = Mixing.post, STREAMS
    model = SimpleNamespace(
        _active_layers=layers, start_layer=0, end_layer=num_layers, is_sequence_parallel=parallel,
        norm=lambda x: State(("normed", *x.values), x.sharded), aux_hidden_state_layers=(),
    )  # fmt: skip
    if "v11.A2" in edits:
        state_before = vllm.take(MODEL, "Glm5NextModel._state_before", edits, names)
        model._state_before = lambda *args: state_before(model, *args)
    model.run = lambda: of_model(model, None, State(()), None, State((Fraction(5),)))
    return model


def end_of(vllm: Sources, num_layers: int, parallel: bool, mhc: bool) -> State:
    """What upstream's model of so many layers ends with, before the norm."""
    ended = build(vllm, (), num_layers, parallel, mhc).run()
    return State(ended.values[1:], ended.sharded)


@quick
@given(
    num_layers=st.integers(2, 6),
    named=st.sets(st.integers(1, 6), min_size=1),
    parallel=st.booleans(),
    mhc=st.booleans(),
)
def test_states(vllm: Sources, num_layers: int, named: set[int], parallel: bool, mhc: bool) -> None:
    named = {index for index in named if index <= num_layers} or {num_layers}
    model = build(vllm, ALL, num_layers, parallel, mhc)
    model.aux_hidden_state_layers = tuple(sorted(named))
    hidden, states = model.run()
    assert hidden == build(vllm, (), num_layers, parallel, mhc).run()
    assert states == [end_of(vllm, index, parallel, mhc) for index in sorted(named)]
    assert not any(state.sharded for state in states)


def test_layer_0_is_the_embedding(vllm: Sources) -> None:
    model = build(vllm, ALL, 3, parallel=False)
    model.aux_hidden_state_layers = (0,)
    assert model.run()[1] == [State((Fraction(5),))]


@pytest.mark.parametrize("parallel", [False, True])
def test_without_a_drafter_nothing_changes(vllm: Sources, parallel: bool) -> None:
    runs = [build(vllm, edits, 4, parallel).run() for edits in ((), ALL)]
    assert runs[0] == runs[1]
    assert isinstance(runs[1], State)


def test_upstream_hands_out_nothing(vllm: Sources) -> None:
    model = build(vllm, (), 4, parallel=False)
    model.aux_hidden_state_layers = (2,)
    assert isinstance(model.run(), State)


def bases(vllm: Sources, name: str, edits: Sequence[str]) -> set[str]:
    return {ast.unparse(base) for base in vllm.node(MODEL, name, edits).bases}


@pytest.mark.parametrize(
    ("name", "interface"),
    [
        ("Glm5NextModel", "EagleModelMixin"),
        ("Glm5NextForCausalLM", "SupportsEagle3"),
        ("Glm5NextForConditionalGeneration", "SupportsEagle3"),
    ],
)
def test_interfaces(vllm: Sources, name: str, interface: str) -> None:
    assert interface not in bases(vllm, name, ())
    assert bases(vllm, name, ALL) == bases(vllm, name, ()) | {interface}
    # and both names are upstream's, imported
    assert any(
        isinstance(node, ast.ClassDef) and node.name == interface
        for node in vllm.tree(INTERFACES).body
    )
    assert interface in [
        alias.name
        for node in vllm.tree(MODEL, ALL).body
        if isinstance(node, ast.ImportFrom) and str(node.module).endswith("models.interfaces")
        for alias in node.names
    ]


def test_the_layers_reach_the_model(vllm: Sources) -> None:
    """Upstream's own setter finds the decoder through the multimodal class and the text model."""
    mixin = vllm.take(INTERFACES, "EagleModelMixin", (), {"ClassVar": None})
    decoder: Any = type("Glm5NextModel", (mixin,), {"_cache_aux_pp_layout": lambda self: None})()
    setter = vllm.take(
        INTERFACES, "SupportsEagle3.set_aux_hidden_state_layers", (), {"EagleModelMixin": mixin}
    )
    outer = SimpleNamespace(language_model=SimpleNamespace(model=decoder))
    setter(outer, (43, 6, 15, 6))
    assert decoder.aux_hidden_state_layers == (6, 15, 43)

"""v2: the first module whose output is not finite is named, once; without the switch nothing is."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Sources

    Execute = Callable[[ast.Module, Mapping[str, Any]], dict[str, Any]]

MODEL = "vllm/models/glm5next/nvidia/model.py"
ALL = ("v2.i", "v2.f", "v2.a", "v2.b")
NAN = math.nan


@dataclass
class Tensor:
    """Values of one type; only what the hooks ask of a tensor."""

    values: Sequence[float]
    floating: bool = True
    size: int = 2

    @property
    def shape(self) -> tuple[int]:
        return (len(self.values),)

    def is_floating_point(self) -> bool:
        return self.floating

    def element_size(self) -> int:
        return self.size

    def float(self) -> Tensor:
        return Tensor(self.values)

    def numel(self) -> int:
        return len(self.values)

    def all(self) -> bool:
        return all(self.values)

    def sum(self) -> int:
        return int(sum(self.values))

    def __invert__(self) -> Tensor:
        return Tensor([not value for value in self.values])


def isfinite(tensor: Tensor) -> Tensor:
    assert tensor.size > 1, "as on one-byte floats, where torch has no such kernel"
    return Tensor([math.isfinite(value) for value in tensor.values])


class Module:
    """A module that passes its input through its children, then returns what `forward` gives."""

    def __init__(self, forward: Callable[[Any], Any], **children: Module):
        self.forward, self.children, self.hooks = forward, children, dict[object, Any]()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        yield prefix, self
        for name, child in self.children.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def register_forward_hook(self, hook: Callable[..., None]) -> Any:
        key = object()
        self.hooks[key] = hook
        return SimpleNamespace(remove=lambda: self.hooks.pop(key))

    def __call__(self, value: Any) -> Any:
        for child in self.children.values():
            value = child(value)
        output = self.forward(value)
        for hook in tuple(self.hooks.values()):
            hook(self, (value,), output)
        return output


def same(value: Any) -> Any:
    return value


@dataclass
class Watched:
    """The lifted functions, what they logged, and the state that they ask about."""

    names: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    capturing: bool = False
    metadata: object = "metadata"

    def watch(self, root: Module) -> Module:
        self.names["_name_first_non_finite"](root, "language_model.model")
        return root


@pytest.fixture
def watched(vllm: Sources, execute: Execute) -> Watched:
    state = Watched()

    def error(message: str, *args: object) -> None:
        state.lines.append(message % args)

    wanted = ("_non_finite", "_name_first_non_finite")
    pieces = [
        node
        for node in vllm.tree(MODEL, ALL).body
        if isinstance(node, ast.FunctionDef) and node.name in wanted
    ]
    cuda = SimpleNamespace(is_current_stream_capturing=lambda: state.capturing)
    given = {
        "torch": SimpleNamespace(Tensor=Tensor, isfinite=isfinite, cuda=cuda),
        "logger": SimpleNamespace(error=error),
        "get_tensor_model_parallel_rank": lambda: 1,
        "get_tensor_model_parallel_world_size": lambda: 2,
        "is_forward_context_available": lambda: True,
        "get_forward_context": lambda: SimpleNamespace(attn_metadata=state.metadata),
    }
    state.names = execute(ast.Module(pieces, []), given)
    return state


def model(bad: Callable[[Any], Any]) -> Module:
    layers = {
        "0": Module(same, self_attn=Module(same), mlp=Module(same)),
        "1": Module(same, self_attn=Module(same, o_proj=Module(bad)), mlp=Module(same)),
    }
    return Module(same, layers=Module(same, **layers), norm=Module(same))


def poison(_: Any) -> Any:
    return Tensor([1.0, NAN, math.inf])


def test_the_innermost_is_named_with_rank_place_and_numbers(watched: Watched) -> None:
    watched.watch(model(lambda value: (Tensor([1.0]), {"aux": poison(value)})))(Tensor([1.0]))
    (line,) = watched.lines
    assert "rank 1 of 2" in line
    assert "output[1]['aux'] of language_model.model.layers.1.self_attn.o_proj (Module)" in line
    assert "2 of 3 values, shape (3,)" in line


def test_once_and_then_no_hook_is_left(watched: Watched) -> None:
    root = watched.watch(model(poison))
    root(Tensor([1.0]))
    root(Tensor([1.0]))
    assert len(watched.lines) == 1
    assert not any(module.hooks for _, module in root.named_modules())


def test_one_byte_floats_are_looked_at_and_integers_are_not(watched: Watched) -> None:
    watched.watch(model(lambda _: Tensor([NAN], floating=False)))(Tensor([1.0]))
    assert watched.lines == []
    watched.watch(model(lambda _: Tensor([NAN], size=1)))(Tensor([1.0]))
    assert len(watched.lines) == 1


@pytest.mark.parametrize("state", [{"capturing": True}, {"metadata": None}])
def test_neither_in_a_capture_nor_in_a_dummy_run(watched: Watched, state: dict[str, Any]) -> None:
    root = watched.watch(model(poison))
    vars(watched).update(state)
    root(Tensor([1.0]))
    assert watched.lines == []
    watched.capturing, watched.metadata = False, "metadata"
    root(Tensor([1.0]))
    assert len(watched.lines) == 1


def test_a_healthy_model_keeps_silent(watched: Watched) -> None:
    watched.watch(model(same))(Tensor([1.0]))
    assert watched.lines == []


def switched(vllm: Sources, execute: Execute, value: str | None) -> list[str]:
    """What building the model does with the switch: the constant, then the statement."""
    tree = vllm.tree(MODEL, ALL)
    (constant,) = (n for n in tree.body if ast.unparse(n).startswith("_NAN_DEBUG ="))
    constructor = vllm.node(MODEL, "Glm5NextModel.__init__", ALL)
    (statement,) = (n for n in constructor.body if ast.unparse(n).startswith("if _NAN_DEBUG:"))
    calls: list[str] = []
    given = {
        "os": SimpleNamespace(environ={} if value is None else {"GLM53_NAN_DEBUG": value}),
        "_name_first_non_finite": lambda root, prefix: calls.append(prefix),
        "self": None,
        "prefix": "model",
    }
    execute(ast.Module([constant, statement], []), given)
    return calls


@pytest.mark.parametrize(("value", "calls"), [(None, []), ("0", []), ("1", ["model"])])
def test_switch(vllm: Sources, execute: Execute, value: str | None, calls: list[str]) -> None:
    assert switched(vllm, execute, value) == calls


def test_the_watch_starts_when_all_modules_are_there(vllm: Sources) -> None:
    body = [ast.unparse(n) for n in vllm.node(MODEL, "Glm5NextModel.__init__", ALL).body]
    (at,) = (i for i, text in enumerate(body) if text.startswith("if _NAN_DEBUG:"))
    assert not any("self." in text.split("=")[0] for text in body[at + 1 :] if "=" in text)
    assert any("self.norm" in text for text in body[:at])


def test_upstream_watches_nothing(vllm: Sources) -> None:
    assert "register_forward_hook" not in vllm.text(MODEL)

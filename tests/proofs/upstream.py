"""Upstream's modules, whole and alive, out of the locked wheel, with stand-ins for what needs CUDA.

`Upstream` executes the files named in REAL, with the chosen edits, in a namespace of their own.
Every other module of vLLM, and torch, is a stand-in: whatever is asked of it is an empty class of
that name. What the proofs need to be true of a stand-in is given by name.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Sources

REAL = (
    "vllm.utils.math_utils",
    "vllm.v1.core.block_pool",
    "vllm.v1.core.kv_cache_coordinator",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.single_type_kv_cache_manager",
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_layout",
    "vllm.v1.kv_cache_spec_registry",
)
_STAND_INS = ("vllm", "torch", "typing_extensions")


@dataclass(frozen=True)
class Dtype:
    """An element type: its name and its size in bytes."""

    name: str
    itemsize: int


BF16 = Dtype("bfloat16", 2)
FP32 = Dtype("float32", 4)
UINT8 = Dtype("uint8", 1)


class _Silent:
    """A logger that says nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


_TOLD: dict[str, dict[str, Any]] = {
    "vllm.logger": {"init_logger": lambda name: _Silent()},
    "vllm.utils.torch_utils": {"get_dtype_size": lambda dtype: dtype.itemsize},
    "vllm.platforms": {
        "current_platform": SimpleNamespace(register_custom_kv_cache_specs=lambda config: None)
    },
    # No model of ours spills its cache to the host.
    "vllm.v1.hisparse.layout": {"get_hisparse_kv_cache_groups": lambda config, specs: None},
    "vllm.envs": {"VLLM_PREFIX_CACHE_RETENTION_INTERVAL": None},
    "typing_extensions": {"Self": typing.Self},
}


class _Named(type):
    """The type of an empty class: a member that is asked of it, as of an enum, is its name."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _StandIn(ModuleType):
    """A module in which every name is an empty class."""

    __path__: typing.ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Named(name, (), {})
        setattr(self, name, made)
        return made


class _Finder(MetaPathFinder, Loader):
    """Finds the files of the wheel, and stand-ins for everything beside them."""

    def __init__(self, sources: Sources, edits: Sequence[str]):
        self._sources, self._edits = sources, tuple(edits)

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name.split(".")[0] not in _STAND_INS:
            return None
        return ModuleSpec(name, self, is_package=name not in REAL)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        if spec.name in REAL:
            return None
        module = _StandIn(spec.name)
        vars(module).update(_TOLD.get(spec.name, {}))
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in REAL:
            file = module.__name__.replace(".", "/") + ".py"
            code = compile(self._sources.text(file, self._edits), file, "exec")
            exec(code, vars(module))


@contextmanager
def _alone(finder: _Finder) -> Iterator[None]:
    """Upstream's names lead to the finder, and afterwards to where they led before."""

    def ours(name: str) -> bool:
        return name.split(".")[0] in _STAND_INS

    before = {name: module for name, module in sys.modules.items() if ours(name)}
    for name in before:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if ours(name)]:
            del sys.modules[name]
        sys.modules.update(before)


class Upstream:
    """The loaded modules: `utils`, `coordinator`, `managers`, `pool`, `interface`."""

    def __init__(self, sources: Sources, edits: Sequence[str]):
        with _alone(_Finder(sources, edits)):
            import importlib

            def load(name: str) -> Any:
                return importlib.import_module(f"vllm.v1.{name}")

            self.utils = load("core.kv_cache_utils")
            self.managers = load("core.single_type_kv_cache_manager")
            self.coordinator = load("core.kv_cache_coordinator")
            self.pool = load("core.block_pool")
            self.interface = load("kv_cache_interface")
            self.managers.register_all_kvcache_specs(None)

"""A module of the installed vLLM; with `--root`, one out of an unpacked wheel.

In the image the module is imported as the server imports it. `--root DIR` is for people without
an image: the file is run as it lies there, and what it imports of vLLM is an empty class of that
name.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from probe import Broken, CannotRun, Probe

CUDA = "vllm.platforms.cuda"
INDEXER = "vllm.model_executor.layers.sparse_attn_indexer_kpool"
KPOOL = "vllm.models.glm5next.nvidia.ops.kpool_compress"
MODEL = "vllm.models.glm5next"
_REAL = (CUDA, INDEXER, KPOOL)


class _Anything(type):
    """The type of an empty class: members are made as they are asked for."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class StandIn(metaclass=_Anything):
    """An empty class and its instances: callable, and as a decorator it does nothing."""

    def __new__(cls, *args: Any, **_: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not isinstance(args[0], StandIn):
            return args[0]
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *args: Any, **_: Any) -> Any:
        return StandIn(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn()


class _Module(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (StandIn,), {})
        setattr(self, name, made)
        return made


class _NoDriver(StandIn):
    """pynvml where there is no driver: vLLM's platform then asks torch."""

    def nvmlInit(self) -> None:
        raise RuntimeError("no driver is asked")


class _Finder(MetaPathFinder, Loader):
    """Finds the real modules below the root, and stand-ins for everything else of vLLM."""

    def __init__(self, root: Path):
        self._root = root

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name.split(".")[0] != "vllm":
            return None
        if name in _REAL:
            file = self._root / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, file)
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _Module(spec.name)
        if spec.name == "vllm.triton_utils":
            import triton
            import triton.language

            vars(module).update(triton=triton, tl=triton.language)
        if spec.name == "vllm.utils.import_utils":
            vars(module).update(import_pynvml=_NoDriver)
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def options(parser: argparse.ArgumentParser) -> None:
    """Add `--root`."""
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="an unpacked vLLM to take the module's file from, with stand-ins for the rest",
    )


def load(probe: Probe, name: str, root: Path | None) -> Any:
    """Import a module of vLLM. Raises CannotRun."""
    if root is not None:
        if not (root / (name.replace(".", "/") + ".py")).is_file():
            raise CannotRun(f"{root} has no {name}")
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(root))
            probe.stand_ins.append(f"vLLM, but for single files of {root}")
    elif importlib.util.find_spec("vllm") is None:
        raise CannotRun("vllm is not installed")
    probe.say(f"importing {name}")
    if name == INDEXER:
        # It and the model import one another; the server enters by the model.
        importlib.import_module(MODEL)
    module = importlib.import_module(name)
    probe.facts[name] = str(module.__file__)
    return module


def function(module: Any, name: str) -> ast.FunctionDef:
    """Return the syntax tree of a function of the module. Raises Broken."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise Broken(f"{module.__name__} has no function {name}")


def execute(node: ast.stmt, module: Any, names: dict[str, Any]) -> dict[str, Any]:
    """Run one statement of the module with its globals and these names; return all names then."""
    namespace = {**vars(module), **names}
    code = compile(ast.Module([node], []), str(module.__file__), "exec")
    exec(code, namespace)  # noqa: S102 - a statement of the installed module
    return namespace

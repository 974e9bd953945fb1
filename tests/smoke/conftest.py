"""The probes, as modules and as programs, and small torches for machines without one."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "smoke"
MODULES = tuple(path.stem for path in sorted(SMOKE.glob("*.py")))

# Whatever is asked of it is an empty class; `cuda` says that there is no GPU.
TORCH = """
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

class Thing:
    def __init__(self, *args, **kwargs): pass
    def __call__(self, *args, **kwargs): return Thing()
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        return Thing()

class Stand(ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"): raise AttributeError(name)
        made = type(name, (Thing,), {})
        setattr(self, name, made)
        return made

class Finder(MetaPathFinder, Loader):
    def find_spec(self, name, path, target=None):
        if name.startswith("torch."): return ModuleSpec(name, self, is_package=True)
    def create_module(self, spec): return Stand(spec.name)
    def exec_module(self, module): pass

sys.meta_path.insert(0, Finder())
sys.modules[__name__].__class__ = Stand
__version__ = "0.0"
class cuda:
    is_available = staticmethod(lambda: False)
    device_count = staticmethod(lambda: 0)
    current_device = staticmethod(lambda: 0)
    get_device_capability = staticmethod(lambda device=None: (9, 0))
class backends:
    cuda = Thing()
"""


@dataclass(frozen=True)
class Ended:
    """How a program ended: its status, the JSON of its last line (None when it is none), stderr."""

    status: int
    told: Any
    err: str


def start(
    script: Path, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a script of the probes' as a program."""
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": "", **(environment or {})},
        timeout=300,
    )
    lines = done.stdout.splitlines()
    try:
        told = json.loads(lines[-1]) if lines else None
    except ValueError:
        told = None
    return Ended(done.returncode, told, done.stderr)


@pytest.fixture
def torch_stand_in(tmp_path: Path) -> dict[str, str]:
    """An environment in which `import torch` finds a stand-in that sees no GPU."""
    package = tmp_path / "stand-in" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TORCH, encoding="utf-8")
    return {"PYTHONPATH": str(package.parent)}


class Modules:
    """The probes' modules, by name."""

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture
def smoke(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The modules of smoke/, as the probes import one another; forgotten afterwards."""
    monkeypatch.syspath_prepend(str(SMOKE))
    yield Modules()
    for name in MODULES:
        sys.modules.pop(name, None)

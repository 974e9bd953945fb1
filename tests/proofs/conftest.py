"""The files that the patches edit, out of the locked wheels, before and after the edits.

A proof runs upstream's own code, lifted out of the wheel, with stand-ins for torch and the like.
It needs the wheel: from the wheelhouse ($SM121_CHAIN_CACHE or the user's cache, by the sha256 that
pins.toml gives), or by its file name from the directory $SM121_CHAIN_WHEELS. Without it the proof
is skipped and says so.
"""

from __future__ import annotations

import ast
import copy
import os
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from packaging.utils import canonicalize_name

from pipeline.patching.loading import load_patches
from pipeline.patching.model import Edit, Patch
from pipeline.patching.scopes import find_scope

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Sources:
    """The files of one wheel. `edits` are ids (`v1.a`): the only ones to apply; () is upstream."""

    wheel: Path
    distribution: str

    def text(self, file: str, edits: Sequence[str] = ()) -> str:
        """A file of the wheel with those of the edits applied that concern it."""
        return _text(self, file, tuple(edits))

    def patched(self, file: str) -> str:
        """A file of the wheel with all edits of the chain that concern it."""
        return self.text(file, [edit.id for edit in self.edits(file)])

    def node(self, file: str, name: str, edits: Sequence[str] = ()) -> Any:
        """The syntax tree of a function or class, by its dotted name."""
        found: Any = self.tree(file, edits)
        for part in name.split("."):
            kinds = (ast.FunctionDef, ast.ClassDef)
            (found,) = (n for n in found.body if isinstance(n, kinds) and n.name == part)
        return copy.deepcopy(found)

    def tree(self, file: str, edits: Sequence[str] = ()) -> ast.Module:
        """The syntax tree of a file, shared: not to be changed."""
        return _tree(self, file, tuple(edits))

    def take(
        self, file: str, name: str, edits: Sequence[str], names: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """A function or class, alive, without its decorators; `names` are its globals."""
        node = self.node(file, name, edits)
        node.decorator_list = []
        taken: Callable[..., Any] = run(ast.Module([node], []), names)[node.name]
        return taken

    def edits(self, file: str) -> Iterator[Edit]:
        """The edits of the chain that concern a file."""
        for patch in _patches().values():
            if patch.distribution == self.distribution:
                for variant in patch.variants:
                    if variant.requirement.specifier.contains(self.version, prereleases=True):
                        yield from (edit for edit in variant.edits if edit.file == file)

    @property
    def version(self) -> str:
        """From the metadata: a file of the wheelhouse is called by its hash."""
        return _version(self.wheel)


# Property tests ask for the same file hundreds of times.


@cache
def _patches() -> dict[str, Patch]:
    return load_patches(ROOT / "patches")


@cache
def _version(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
    return metadata.split("/")[0].removesuffix(".dist-info").split("-")[1]


@cache
def _text(sources: Sources, file: str, edits: tuple[str, ...]) -> str:
    with zipfile.ZipFile(sources.wheel) as archive:
        data = archive.read(file)
    for edit in sources.edits(file):
        if edit.id in edits:
            start, end = 0, len(data)
            if edit.within is not None:
                scope = find_scope(file, data, edit.within)
                start, end = scope.start, scope.end
            part = data[start:end]
            assert part.count(edit.find.encode()) == edit.count, edit.id
            part = part.replace(edit.find.encode(), edit.replace.encode())
            data = data[:start] + part + data[end:]
    return data.decode()


@cache
def _tree(sources: Sources, file: str, edits: tuple[str, ...]) -> ast.Module:
    return ast.parse(sources.text(file, edits), feature_version=(3, 11))


def run(module: ast.Module, names: Mapping[str, Any]) -> dict[str, Any]:
    """Runs a piece of upstream's code; annotations stay unevaluated, as they name its types."""
    future = ast.parse("from __future__ import annotations").body
    code = compile(ast.Module([*future, *module.body], []), "<upstream>", "exec")
    namespace = dict(names)
    exec(code, namespace)
    return namespace


def _wheel(name: str, version: str) -> Path:
    """The wheel of the lock. Skips the test when it is not at hand."""
    directory = os.environ.get("SM121_CHAIN_WHEELS")
    if directory:
        for path in sorted(Path(directory).glob(f"{name.replace('-', '_')}-{version}-*.whl")):
            return path
    cache = Path(os.environ.get("SM121_CHAIN_CACHE") or platformdirs.user_cache_dir("sm121-chain"))
    lock = ROOT / "pins.toml"
    packages = tomllib.loads(lock.read_text(encoding="utf-8"))["packages"] if lock.exists() else []
    for package in packages:
        if canonicalize_name(package["name"]) == name and package.get("version") == version:
            for wheel in package["wheels"]:
                path = cache / "files" / "sha256" / str(wheel["hashes"]["sha256"])
                if path.exists():
                    return path
    pytest.skip(f"the wheel of {name} {version} is not in the wheelhouse ({cache})")


@pytest.fixture(scope="session")
def vllm() -> Sources:
    return Sources(_wheel("vllm", "0.30.0"), "vllm")


@pytest.fixture(scope="session")
def flashinfer() -> Sources:
    return Sources(_wheel("flashinfer-python", "0.6.18.post1"), "flashinfer-python")


@pytest.fixture(scope="session")
def flashinfer_before() -> Sources:
    """The release that v3 replaces."""
    return Sources(_wheel("flashinfer-python", "0.6.17"), "flashinfer-python")


@pytest.fixture(scope="session")
def execute() -> Callable[[ast.Module, Mapping[str, Any]], dict[str, Any]]:
    """`run`, for a proof that lifts single statements."""
    return run

"""The content key of a step: what its output depends on, and nothing else."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipeline.graph import Step
from pipeline.oci.image import canonical
from pipeline.steps.program import PROGRAMS, StepOutput

# What the steps' own code calls on; another version may write other bytes.
_LIBRARIES = (
    "installer",
    "packaging",
    "pyelftools",
    "ruff",
    "tree-sitter",
    "tree-sitter-cpp",
    "tree-sitter-cuda",
    "tree-sitter-python",
    "zlib-ng",
    "zstandard",
)
_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(
    r"^\s*(?:from|import) (pipeline[\w.]*)(?: import (\([^)]*\)|[^\n]*))?", re.MULTILINE
)


@cache
def _libraries() -> list[tuple[str, str]]:
    found = []
    for library in _LIBRARIES:
        try:
            found.append((library, version(library)))
        except PackageNotFoundError:
            found.append((library, ""))
    return found


@cache
def _imports(module: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a module's source and the modules of this program that it names in imports."""
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    source = file.read_bytes()
    return source, tuple(_named(source.decode("utf-8")))


def _named(source: str) -> Iterator[str]:
    for module, names in _IMPORT.findall(source):
        yield module
        # `from package import module`: the names may be modules.
        for name in re.findall(r"\w+", names):
            path = _PACKAGE.joinpath(*module.split(".")[1:], name)
            if path.with_suffix(".py").exists() or path.is_dir():
                yield f"{module}.{name}"


@cache
def toolchain(program: str) -> str:
    """Return the digest of a step's program: every module that it imports, directly or not.

    It keeps a cache from answering for another version of the program. It is in keys only, never
    in an output: the bytes of an image do not say which version made them.
    """
    modules = imported(("pipeline.steps.program", f"pipeline.steps.{PROGRAMS[program]}"))
    sources = {module: hashlib.sha256(_imports(module)[0]).hexdigest() for module in modules}
    return hashlib.sha256(canonical([sources, _libraries()])).hexdigest()


def imported(modules: Sequence[str]) -> set[str]:
    """Return modules of this program and every one that they import, directly or not."""
    pending = list(modules)
    found: set[str] = set()
    while pending:
        module = pending.pop()
        if module not in found:
            found.add(module)
            pending += _imports(module)[1]
    return found


def step_key(step: Step, inputs: Sequence[StepOutput]) -> str:
    """Return the key of a step whose inputs are done, as hex.

    It holds the digests of the inputs' outputs, not their keys: when a step before it ran again and
    gave the same, the key is the same, and the chain behind it is not made again.
    """
    document = {
        "toolchain": toolchain(step.program),
        "program": step.program,
        "params": step.params,
        "files": [file.sha256 for file in step.files],
        "steps": [output.digest for output in inputs],
    }
    return hashlib.sha256(canonical(document)).hexdigest()

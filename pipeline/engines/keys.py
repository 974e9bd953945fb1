"""The content key of a step: what its output depends on, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipeline.graph import Step
from pipeline.oci.image import canonical
from pipeline.steps.program import StepOutput

# What steps are made of: a change in any of these may change an output. Engines, verbs and reports
# cannot, so they are not here.
_PACKAGES = ("audit", "base", "debs", "inventory", "oci", "patching", "steps", "wheels")
_LIBRARIES = (
    "installer",
    "packaging",
    "pyelftools",
    "ruff",
    "tree-sitter",
    "tree-sitter-cpp",
    "tree-sitter-cuda",
    "tree-sitter-python",
    "zstandard",
)


@cache
def toolchain() -> str:
    """Return the digest of this program's steps and the libraries that they use.

    It keeps a cache from answering for another version of the program. It is in keys only, never
    in an output: the bytes of an image do not say which version made them.
    """
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for package in _PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            digest.update(canonical(file.relative_to(root).as_posix()))
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    for library in _LIBRARIES:
        try:
            found = version(library)
        except PackageNotFoundError:
            found = ""
        digest.update(canonical([library, found]))
    return digest.hexdigest()


def step_key(step: Step, inputs: Sequence[StepOutput]) -> str:
    """Return the key of a step whose inputs are done, as hex.

    It holds the digests of the inputs' outputs, not their keys: when a step before it ran again and
    gave the same, the key is the same, and the chain behind it is not made again.
    """
    document = {
        "toolchain": toolchain(),
        "program": step.program,
        "params": step.params,
        "files": [file.sha256 for file in step.files],
        "steps": [output.digest for output in inputs],
    }
    return hashlib.sha256(canonical(document)).hexdigest()

"""What a step is, and how one is run into a directory.

A step's output is a directory: the files that its program wrote and `result.json`, which names each
of them with sha256 and size and holds the program's facts. The digest of `result.json` stands for
the whole output, so a step that was run again and gave the same is no change for those after it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pipeline.oci.image import canonical

RESULT = "result.json"

# Program name -> module below pipeline.steps with a function `run(inputs, out)`.
PROGRAMS = {
    "debian-layer": "debian_layer",
    "wheel-conflicts": "wheel_conflicts",
    "wheel-layer": "wheel_layer",
    "system-layer": "system_layer",
    "image-index": "image_index",
    "image-inventory": "image_inventory",
    "stage": "stage",
    "stage-layer": "stage_layer",
    "audit": "audit",
}


# Programs whose module has a function `prepare(inputs)` too: it reads, ahead of time, some of what
# `run` will read of the first of its steps, and keeps it in this process. Only for speed.
PREPARED = ("audit",)


@dataclass(frozen=True)
class StepOutput:
    """A finished step: its directory, and what `result.json` says."""

    directory: Path
    data: bytes

    @property
    def digest(self) -> str:
        """Digest of the whole output, "sha256:<hex>"."""
        return "sha256:" + hashlib.sha256(self.data).hexdigest()

    @cached_property
    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.data)
        return document

    @property
    def facts(self) -> Mapping[str, Any]:
        """The program's own facts."""
        facts: Mapping[str, Any] = self._document["facts"]
        return facts

    @property
    def files(self) -> Mapping[str, tuple[str, int]]:
        """Name of each file -> hex sha256 and size in bytes."""
        return {name: (sha256, size) for name, (sha256, size) in self._document["files"].items()}


@dataclass(frozen=True)
class Inputs:
    """What a program reads, and nothing else: its parameters, locked files, steps before it.

    `file` maps a hex sha256 to the locked file's place on disk, where a layer of a base image may
    be missing until it is asked for (see `oci.blob.NotHere`); `steps` are in the plan's order.
    `kept` is a directory of what was found in layers by their digests, None for none: it says
    nothing that the layers do not say, so it has no influence on an output.
    """

    params: Mapping[str, Any]
    file: Callable[[str], Path]
    steps: Sequence[StepOutput]
    kept: Path | None = None


@dataclass(frozen=True)
class Result:
    """What a program returns. `sha256` holds hex digests of files that it hashed while writing."""

    facts: Mapping[str, Any]
    sha256: Mapping[str, str] = field(default_factory=dict)


def run_program(program: str, inputs: Inputs, out: Path) -> StepOutput:
    """Run a program into the empty directory `out`, and seal the output with `result.json`."""
    module = importlib.import_module(f"pipeline.steps.{PROGRAMS[program]}")
    result: Result = module.run(inputs, out)
    files = {}
    for path in sorted(p for p in out.rglob("*") if p.is_file()):
        name = path.relative_to(out).as_posix()
        sha256 = result.sha256.get(name)
        if sha256 is None:
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        files[name] = (sha256, path.stat().st_size)
    data = canonical({"facts": result.facts, "files": files})
    (out / RESULT).write_bytes(data)
    return StepOutput(out, data)

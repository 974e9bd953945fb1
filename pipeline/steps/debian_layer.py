"""Step `debian-layer`: the Debian of the base, unpacked without running a script.

params: debs [{name, version, path, size, sha256}], epoch, level. Facts: layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.debs.layer import write_debian_layer
from pipeline.steps.layers import BLOB, seal
from pipeline.steps.program import Inputs, Result


@dataclass(frozen=True)
class _Deb:
    name: str
    version: str
    path: str
    size: int
    sha256: str


def run(inputs: Inputs, out: Path) -> Result:
    """Unpack. Raises Refusal for a package that is not what the lock names, or is not sound."""
    params = inputs.params
    debs = [_Deb(**deb) for deb in params["debs"]]
    index = write_debian_layer(
        [(inputs.file(deb.sha256), deb) for deb in debs],
        out / BLOB,
        epoch=params["epoch"],
        level=params["level"],
        architecture=params["architecture"],
    )
    return seal(index, out, created_by="sm121-chain base: Debian packages")

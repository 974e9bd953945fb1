"""Step `debian-layer`: the Debian of the base, unpacked without running a script.

params: debs [{name, version, path, size, sha256}], epoch, level. Facts: layer.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.debs.layer import write_debian_layer
from pipeline.lock.model import LockedDeb
from pipeline.steps.layers import BLOB, seal
from pipeline.steps.program import Inputs, Result


def run(inputs: Inputs, out: Path) -> Result:
    """Unpack. Raises Refusal for a package that is not what the lock names, or is not sound."""
    params = inputs.params
    debs = [LockedDeb(**deb) for deb in params["debs"]]
    index = write_debian_layer(
        [(inputs.file(deb.sha256), deb) for deb in debs],
        out / BLOB,
        epoch=params["epoch"],
        level=params["level"],
        architecture=params["architecture"],
    )
    return seal(index, out, created_by="sm121-chain base: Debian packages")

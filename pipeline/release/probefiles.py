"""The files of `smoke/` as they are sent into a container: one archive, and a digest of it."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pipeline.errors import UsageError
from pipeline.oci.image import canonical, sha256

DRIVER = "run.py"
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip archive can say


@dataclass(frozen=True)
class ProbeFiles:
    """The probes: where they lie, a zip archive of them, and what they are, whatever packs them."""

    directory: Path
    archive: bytes
    digest: str


def read_probes(directory: Path) -> ProbeFiles:
    """Read every file of a directory but its pages for people and what Python compiled.

    Raises UsageError without a driver.
    """
    if not (directory / DRIVER).is_file():
        raise UsageError(
            f"{directory}: no probes: there is no {DRIVER}",
            hint="run this in a checkout of the project",
        )
    files = {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.suffix not in (".md", ".pyc")
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), data, zipfile.ZIP_DEFLATED)
    digests = {name: sha256(data) for name, data in files.items()}
    return ProbeFiles(directory, out.getvalue(), sha256(canonical(digests)))

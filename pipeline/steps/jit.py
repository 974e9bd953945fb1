"""The JIT cache path of an image: one for each content of what is compiled at run time.

FlashInfer keys its cache by version, architecture and module, and ninja compares mtimes only. A
header with other bytes and an assembler's mtime would silently get the old `.so` (measured), so an
image must never share its cache with one whose sources differ. The path carries their hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pipeline.inventory.jit import SOURCES
from pipeline.oci.image import canonical

VARIABLE = "FLASHINFER_WORKSPACE_BASE"
_ROOT = "/root/.cache/sm121-chain"


def jit_sources(site_packages: str) -> str:
    """Return the image path of the directory of what is compiled at run time."""
    return f"{site_packages.strip('/')}/{SOURCES}"


def jit_environment(hashes: Mapping[str, str], site_packages: str) -> dict[str, str]:
    """Return the variable that names the cache; {} for an image without such sources.

    `hashes` maps the image's paths to the hex sha256 of their files; those of the sources will do.
    """
    root = f"{jit_sources(site_packages)}/"
    sources = sorted(item for item in hashes.items() if item[0].startswith(root))
    if not sources:
        return {}
    digest = hashlib.sha256(canonical(sources)).hexdigest()
    return {VARIABLE: f"{_ROOT}/{digest[:12]}"}

"""The PEP 508 marker environment that an image itself shows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pipeline.audit.expectation import marker_environment
from pipeline.inventory.infos import find_sites
from pipeline.oci.view import ImageView

_MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
_PYTHON = re.compile(r"python(3\.[0-9]+)")


def image_environment(view: ImageView, sites: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the environment of an image: where its Python's packages are (`sites`, the fullest
    first, if they are known) tells the version, its config the architecture, or ours (arm64)
    without one."""
    found = sites or find_sites(view.tree)
    versions = [match[1] for site in found if (match := _PYTHON.search(site))]
    architecture = str(view.config.get("architecture", "arm64"))
    python = versions[0] if versions else "3.11"
    return marker_environment(python, _MACHINES.get(architecture, architecture))

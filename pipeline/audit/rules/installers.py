"""Configuration of pip and uv that an image carries."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import NOTE, WARNING, Finding
from pipeline.inventory.installers import configurations


def installers(context: Context) -> Iterator[Finding]:
    """What would decide over the next install in the image is said; where packages come from is a
    warning."""
    for one in configurations(context.view):
        where = one.path.rpartition("/")[2] if one.path else "the environment"
        sets = ", ".join(one.keys) or "what cannot be read"
        yield context.finding(
            "installer-configured",
            one.path or "environment",
            f"{where} sets {sets}: an install in this image obeys it",
            path=one.path,
            layer=one.layer if one.path else None,
            severity=WARNING if one.sources or not one.keys else NOTE,
            fix="remove it in the layer that needed it" if one.sources or not one.keys else "",
        )

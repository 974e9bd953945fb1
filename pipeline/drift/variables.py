"""The variables of an image that are meant as they are: by a stage of its line, or its content."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.drift.sides import Side
from pipeline.inventory.jit import SOURCES
from pipeline.steps.jit import jit_environment


def meant(side: Side) -> Mapping[str, tuple[str, str]]:
    """Return (value, reason) by variable: what the stages of the side's line set, and the cache of
    compiled kernels that its very sources make (`steps.jit`)."""
    found = dict(side.variables)
    if not side.inventory.sites:
        return found
    site = side.inventory.sites[0]
    hashes = {
        one.entry.path: one.entry.sha256
        for one in side.tree.under(f"{site}/{SOURCES}")
        if one.entry.has_content
    }
    for name, value in jit_environment(hashes, site).items():
        found.setdefault(name, (value, "the cache of kernels from exactly these sources"))
    return found

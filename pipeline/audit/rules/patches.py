"""Patches must stand in the merged tree of the image, not only in the layer that wrote them."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import Finding


def patches(context: Context) -> Iterator[Finding]:
    """Every patch's text is there and the text that it replaced is gone."""
    for state in context.patch_states:
        if not state.lost:
            continue
        file = state.patch.file
        gone = state.located is None
        yield context.finding(
            "patch-lost",
            state.patch.name,
            f"{file.rpartition('/')[2]}: {'; '.join(state.lost)}",
            path=file,
            layer=None if state.located is None else state.located.layer,
            fix="find the stage that removed the file, and patch what took its place"
            if gone
            else "apply the patch after whatever wrote this file last",
        )

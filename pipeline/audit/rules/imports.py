"""Imports that an override, or a moved distribution, breaks."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import ERROR, WARNING, Finding
from pipeline.audit.report import INHERITED


def imports(context: Context) -> Iterator[Finding]:
    """What a dependant imports whenever it is imported is there."""
    for one in context.broken_imports:
        provider = context.inventory.by_name[one.provider][0]
        file = one.path.rpartition("/")[2]
        line = f" line {one.line}" if one.line else ", which does not parse here,"
        more = f" and {one.files - 1} more files" if one.files > 1 else ""
        yield context.finding(
            "import-broken",
            one.dependant,
            f"{file}{line}{more} import {one.module}; {one.missing} is not in the image, where "
            f"{one.provider} is at {provider.version}",
            path=one.path,
            layer=provider.layer,
            severity=WARNING if one.kind == INHERITED or not one.line else ERROR,
            fix=f"move {one.dependant} to a release for {one.provider} {provider.version}, or back",
        )

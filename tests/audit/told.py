"""A finding as a reader gets it: every word of it, with the number of its layer."""

from __future__ import annotations

from typing import Any

from pipeline.audit.report import AuditReport
from pipeline.audit.run import audit
from pipeline.oci.view import LayersView
from tests.audit.images import expect


def told(view: LayersView, rule: str, *, audited: Any = None, **expected: object) -> list[str]:
    """Return the findings of a rule in an image, each as lines of text.

    `audited` is what `audit` takes besides (parent, loader, …), `expected` what the image should
    be.
    """
    report = audit(view, expect(**expected), **(audited or {}))  # type: ignore[arg-type]
    return in_full(report, rule)


def in_full(report: AuditReport, rule: str) -> list[str]:
    """Return the findings of a rule in a report."""
    numbers = {"": "", **{one.digest: f" @{n}" for n, one in enumerate(report.layers)}}
    return [
        "\n".join(
            filter(
                None,
                [
                    f"{one.severity} {one.subject}: {one.message}",
                    f"{one.path}{numbers[one.layer]}",
                    one.reason and f"because: {one.reason}",
                    one.fix and f"fix: {one.fix}",
                ],
            )
        )
        for one in report.findings
        if one.rule == rule
    ]

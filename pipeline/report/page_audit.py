"""The page of an audit: what the image holds beside what the lock says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipeline.audit.report import AuditReport
from pipeline.audit.rules.versions import compare
from pipeline.drift.changes import ADDED, BUILD, DOWN, MOVED, REMOVED, UP
from pipeline.inventory.distributions import Distribution
from pipeline.inventory.families import family_of, talks_to_gpu
from pipeline.report.judged import judged_audit
from pipeline.report.page import Cell, Detail, Head, Line, Page, Table, Wanted

_DIRECTIONS = {
    "pin-upgraded": UP,
    "pin-downgraded": DOWN,
    "build-changed": BUILD,
    "pin-changed": MOVED,
}


def audit_page(report: AuditReport, pins: Mapping[str, str], *, threshold: str) -> Page:
    """Return the page; `pins` are the locked versions by normalised name, {} without a lock."""
    judged = judged_audit(report)
    facts = [("image", report.subject), ("against", report.against or "nothing")]
    facts += [("distributions", str(len(report.distributions)))]
    kinds = [one.kind for one in report.unsatisfied]
    if kinds:
        words = ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))
        facts.append(("requirements not met", words))
    heads = [Head("lock"), Head("image")] if pins else [Head("image")]
    lines = sorted(_lines(report, pins), key=lambda line: (not line.changed, line.name))
    layers = Table(
        "Layers",
        ("number", "made by", "digest"),
        [(str(n), one.created_by, one.digest) for n, one in enumerate(report.layers)],
        code=(2,),
    )
    return Page(
        f"Audit of {report.subject}",
        judged,
        threshold,
        facts,
        heads,
        lines,
        (layers,) if report.layers else (),
    )


def _lines(report: AuditReport, pins: Mapping[str, str]) -> Iterator[Line]:
    found: dict[str, list[Distribution]] = {}
    for one in report.distributions:
        found.setdefault(one.name, []).append(one)
    for name in sorted({*found, *pins}):
        here = found.get(name, [])
        versions = " and ".join(one.version for one in here)
        direction = _direction(pins, name, here)
        cells = [Cell(versions, direction)]
        if pins:
            cells.insert(0, Cell(pins.get(name, "")))
        details = list(_details(report, name, here, direction))
        yield Line(name, "distribution", family_of(name), talks_to_gpu(name), cells, details)


def _direction(pins: Mapping[str, str], name: str, here: list[Distribution]) -> str:
    if not pins:
        return ""
    if not here:
        return REMOVED
    if name not in pins:
        return ADDED
    broken = compare(pins[name], here[0].version) if len(here) == 1 else None
    return _DIRECTIONS[broken] if broken else ""


def _details(
    report: AuditReport, name: str, here: list[Distribution], direction: str
) -> Iterator[Detail]:
    wishes = [
        Wanted(f"{one.dependant} wants {one.requirement}", one.kind, one.why)
        for one in report.unsatisfied
        if one.target == name
    ]
    layer = ""
    if here and report.layers:
        number = here[0].layer
        layer = f"layer {number}, {report.layers[number].created_by}".rstrip(", ")
    for one in here:
        if one.origin is not None:
            yield Detail("", "", f"{one.version} is from {one.origin}")
    if direction or wishes:
        text = here[0].path if here else "not in the image"
        yield Detail("", direction, text, layer, wishes=wishes)

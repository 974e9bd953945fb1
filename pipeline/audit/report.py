"""The result of an audit: plain values, the same for every way of showing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding, worst
from pipeline.inventory.distributions import Distribution
from pipeline.oci.view import LayerInfo

SCHEMA = "sm121-chain/audit/2"
INTENDED, INHERITED, NEW = "intended", "inherited", "new"


@dataclass(frozen=True, order=True)
class Unsatisfied:
    """A requirement that the image does not meet.

    `dependant` and `requirement` say who wants what, `found` the version that is there ("" for
    none). `kind` is "intended" (by the ledger, whose reason is `why`), "inherited" (the parent is
    the same in it) or "new".
    """

    dependant: str
    requirement: str
    found: str
    kind: str
    layer: int
    why: str = ""
    target: str = ""


@dataclass(frozen=True, order=True)
class BrokenImport:
    """A module that a dependant imports whenever it is imported, and that is not in the image; or
    `module.name`, where the module is there and the name that is imported from it is not.

    `path` and `line` are the first place, of `files` in all; line 0 means that the source does not
    parse here. `missing` is the part of the module's name that no file provides, `provider` the
    distribution that has the package. `kind` is "inherited" (from the parent) or "new".
    """

    dependant: str
    module: str
    path: str
    line: int
    files: int
    missing: str
    provider: str
    kind: str


@dataclass(frozen=True)
class Baseline:
    """What an audit must know of the parent: (version, origin) of its distributions by name, the
    (dependant, requirement, found) of the requirements that it does not meet, and the (dependant,
    module) of its broken imports."""

    distributions: Mapping[str, tuple[str, str]]
    unsatisfied: frozenset[tuple[str, str, str]]
    broken_imports: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Baseline:
        """Read it from the JSON object of the parent's report (`AuditReport.to_json`)."""
        return cls(
            {
                one["name"]: (one["version"], one.get("origin", ""))
                for one in report["distributions"]
            },
            frozenset(
                (one["dependant"], one["requirement"], one.get("found", ""))
                for kind in (INTENDED, INHERITED, NEW)
                for one in report["requirements"][kind]
            ),
            frozenset((one["dependant"], one["module"]) for one in report["broken_imports"]),
        )


@dataclass(frozen=True)
class AuditReport:
    """What an audit of `subject` against `against` ("": nothing) found, findings in order."""

    subject: str
    against: str
    layers: tuple[LayerInfo, ...]
    distributions: tuple[Distribution, ...]
    unsatisfied: tuple[Unsatisfied, ...]
    findings: tuple[Finding, ...]
    broken_imports: tuple[BrokenImport, ...] = ()

    @property
    def worst(self) -> str | None:
        """The highest severity among the findings, None without any."""
        return worst(self.findings)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of findings by severity, all three always there."""
        all_of = [finding.severity for finding in self.findings]
        return {severity: all_of.count(severity) for severity in (ERROR, WARNING, NOTE)}

    @property
    def baseline(self) -> Baseline:
        """What the audit of a child needs of this one."""
        return Baseline.from_json(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the report as one JSON object; its form is fixed by `schema`."""
        return {
            "schema": SCHEMA,
            "subject": self.subject,
            "against": self.against or None,
            "worst": self.worst,
            "counts": dict(self.counts),
            "layers": [
                {"digest": layer.digest, "diff_id": layer.diff_id, "created_by": layer.created_by}
                for layer in self.layers
            ],
            "distributions": [_distribution(one) for one in self.distributions],
            "requirements": {
                kind: [_unsatisfied(one) for one in self.unsatisfied if one.kind == kind]
                for kind in (INTENDED, INHERITED, NEW)
            },
            "broken_imports": [asdict(one) for one in self.broken_imports],
            "findings": [finding.to_json() for finding in self.findings],
        }


def _distribution(one: Distribution) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": one.name,
        "version": one.version,
        "path": one.path,
        "layer": one.layer,
    }
    if one.installer:
        document["installer"] = one.installer
    if one.origin is not None:
        document["origin"] = str(one.origin)
    return document


def _unsatisfied(one: Unsatisfied) -> dict[str, str]:
    document = {
        "dependant": one.dependant,
        "requirement": one.requirement,
        "found": one.found,
        "why": one.why,
    }
    return {key: value for key, value in document.items() if value}

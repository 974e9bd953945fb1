"""The finding: one typed result of an audit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

ERROR = "error"
WARNING = "warning"
NOTE = "note"
_ORDER = {ERROR: 0, WARNING: 1, NOTE: 2}


@dataclass(frozen=True)
class Finding:
    """One result. `rule` is a stable id in kebab-case, `severity` one of this module's constants.

    `subject` is a distribution or file; `layer` the digest of the layer that brought what was
    found; `fix` the next step; `reason` why the finding is tolerated (ledger, `known` entry), empty
    when it is not: a tolerated finding has severity note.
    """

    rule: str
    severity: str
    subject: str
    message: str
    path: str = ""
    layer: str = ""
    fix: str = ""
    reason: str = ""

    def sort_key(self) -> tuple[int, str, str, str, str]:
        """Order for reports: what hurts first, then by rule, subject and place."""
        return (_ORDER[self.severity], self.rule, self.subject, self.path, self.message)

    def to_json(self) -> dict[str, str]:
        """Return the finding as a JSON object; empty members are left out."""
        return {key: value for key, value in asdict(self).items() if value}


def worst(findings: Iterable[Finding]) -> str | None:
    """Return the highest severity among findings, None without any."""
    return min((one.severity for one in findings), key=_ORDER.__getitem__, default=None)

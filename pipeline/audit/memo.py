"""What the audits of a chain need not find out again: its images are nearly equal."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.inventory.distributions import Memo
from pipeline.inventory.ownership import Claim, ClaimMemo


@dataclass
class AuditMemo:
    """Answers that depend on nothing but what they are kept under.

    `markers` are answers by the marker environment, and in it by requirement and extra; None is one
    that has no answer. `wrong` are the claims of a distribution whose files are not what its RECORD
    says, under the id of all of its claims, which the value keeps alive.
    """

    metadata: Memo = field(default_factory=Memo)
    claims: ClaimMemo = field(default_factory=ClaimMemo)
    markers: dict[tuple[tuple[str, str], ...], dict[tuple[str, str], bool | None]] = field(
        default_factory=dict
    )
    wrong: dict[int, tuple[tuple[Claim, ...], tuple[Claim, ...]]] = field(default_factory=dict)

"""Why a smoke report proves nothing: typed reasons, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_LONGEST = 300


class Reason(StrEnum):
    """The kinds of no. The values are stable; docs/release.md explains each."""

    UNREADABLE = "report-unreadable"
    NO_REPORT = "no-report"
    NOTHING_REQUIRED = "nothing-required"
    NO_IMAGE = "no-image"
    OTHER_IMAGE = "other-image"
    NO_RANK = "no-rank"
    RANK_TWICE = "rank-twice"
    RANK_FAILED = "rank-failed"
    RANKS_DIFFER = "ranks-differ"
    NO_GPU = "no-gpu"
    OTHER_GPU = "other-gpu"
    OLDER_THAN_IMAGE = "older-than-image"
    FROM_THE_FUTURE = "from-the-future"
    TIMES = "times-disagree"
    PROBE_MISSING = "probe-missing"
    PROBE_TWICE = "probe-twice"
    PROBE_FAILED = "probe-failed"
    PROBE_PLANTED = "probe-planted"
    PROBE_NOT_REAL = "probe-not-real"
    NUMBER_MISSING = "number-missing"
    LIMIT_BROKEN = "limit-broken"


@dataclass(frozen=True)
class Refused:
    """One reason, where it was found, and what is wrong there."""

    reason: Reason
    where: str
    problem: str

    def __str__(self) -> str:
        return shown(": ".join(part for part in (self.reason, self.where, self.problem) if part))


def shown(text: str) -> str:
    """Return text that others wrote as it may be shown: on one line, not too long, no controls."""
    head = text[:_LONGEST] + (" …" if len(text) > _LONGEST else "")
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in head)

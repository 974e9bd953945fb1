"""What came of asking whether patches fit: one outcome an edit, and post-images if all fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType


class Outcome(StrEnum):
    """The answer about one edit or one patch. Reports show the values, they never change."""

    APPLIED = "applied"
    FITS = "fits"
    """Would have been applied, but something else of the same run failed: nothing is written."""
    ALREADY_APPLIED = "already-applied"
    UPSTREAM = "upstream"
    NOT_NEEDED = "not-needed"
    ANCHOR_MISSING = "anchor-missing"
    ANCHOR_AMBIGUOUS = "anchor-ambiguous"
    SCOPE_MISSING = "scope-missing"
    SCOPE_AMBIGUOUS = "scope-ambiguous"
    TARGET_MISSING = "target-missing"
    PARTIALLY_APPLIED = "partially-applied"
    CONFLICT = "conflict"
    WOULD_NOT_PARSE = "would-not-parse"
    ENCODING = "encoding"
    NOT_TEXT = "not-text"
    NO_VARIANT = "no-variant"
    VARIANT_AMBIGUOUS = "variant-ambiguous"

    @property
    def is_failure(self) -> bool:
        """Whether nothing may be written. Already applied, upstream, not needed: no failures."""
        return self not in _FINE


_FINE = frozenset(
    {
        Outcome.APPLIED,
        Outcome.FITS,
        Outcome.ALREADY_APPLIED,
        Outcome.UPSTREAM,
        Outcome.NOT_NEEDED,
    }
)


@dataclass(frozen=True)
class EditResult:
    """What came of one edit.

    `expected` is the edit's count, `found` how often the anchor stands in the scope (outside of
    finished replacements), `lines` where (1…), or where near misses stand. `hints` say what
    differs. `note` is a remark that changes nothing.
    """

    patch: str
    edit: str
    file: str
    within: str | None
    outcome: Outcome
    message: str = ""
    expected: int = 1
    found: int = 0
    lines: tuple[int, ...] = ()
    hints: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class PatchResult:
    """What came of one patch. `variant` is the `for` line that fits the versions, or empty."""

    name: str
    distribution: str
    variant: str
    outcome: Outcome
    message: str = ""
    edits: tuple[EditResult, ...] = ()


@dataclass(frozen=True)
class PostImage:
    """A file as the edits leave it. `before` and `after` are sha256 (hex) of the whole file."""

    path: str
    before: str
    after: str
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Evaluation:
    """The answer about all patches together.

    `files` holds the changed files by path, sorted; it is empty unless `fits`, so that whoever
    writes it writes everything or nothing.
    """

    patches: tuple[PatchResult, ...]
    files: Mapping[str, PostImage] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def fits(self) -> bool:
        """Whether no patch failed."""
        return not any(patch.outcome.is_failure for patch in self.patches)

    @property
    def failures(self) -> tuple[EditResult, ...]:
        """Every edit that failed, in order. A patch without a fitting variant has no edits."""
        return tuple(e for patch in self.patches for e in patch.edits if e.outcome.is_failure)

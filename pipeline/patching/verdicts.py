"""What a release does to patches: a verdict an edit, what would make it fit, who must look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from packaging.version import Version

from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant


class Verdict(StrEnum):
    """The answer about one edit. Reports show the values, they never change."""

    APPLIES = "applies"
    ALREADY_APPLIED = "already-applied"
    UPSTREAM = "upstream"
    MOVED = "moved"
    """Its scope, or its anchor, stands in another scope or another file."""
    DRIFTED = "drifted"
    """The text in its scope has changed."""
    GONE = "gone"
    """Neither scope nor anchor is left, nor anything like them."""
    REFUSED = "refused"
    """It was found, and something else is wrong: a conflict, a syntax error, an encoding."""

    @property
    def is_fine(self) -> bool:
        """Whether nothing about the edit has to change."""
        return self in _FINE


_FINE = frozenset({Verdict.APPLIES, Verdict.ALREADY_APPLIED, Verdict.UPSTREAM})


class State(StrEnum):
    """The answer about one patch."""

    FITS = "fits"
    ALREADY_APPLIED = "already-applied"
    UPSTREAM = "upstream"
    NOT_NEEDED = "not-needed"
    """Its variant for this release says why the release does without."""
    NEEDS_VARIANT = "needs-variant"
    """Every edit would apply, but no variant is for this release."""
    DOES_NOT_FIT = "does-not-fit"


class Line(NamedTuple):
    """A line of a file (1…), without its line end."""

    file: str
    number: int
    text: str


@dataclass(frozen=True)
class Proposal:
    """An edit as it could be for the release.

    `changes` says what is other than it was, `read` why a person must look at it; empty when the
    edit is as it was in a scope that is as it was.
    """

    edit: Edit
    changes: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


@dataclass(frozen=True)
class EditReport:
    """What became of one edit. `lines` are the evidence, or what comes nearest."""

    edit: Edit
    verdict: Verdict
    message: str = ""
    lines: tuple[Line, ...] = ()
    proposal: Proposal | None = None


@dataclass(frozen=True)
class PatchReport:
    """What became of one patch. `variant` is the one that was asked, `own` whether it is for this
    release; without a variant `edits` is empty. `upstream` are its tests, with the places that
    their scopes have moved to."""

    patch: Patch
    state: State
    variant: Variant | None
    own: bool
    message: str = ""
    edits: tuple[EditReport, ...] = ()
    upstream: tuple[UpstreamTest, ...] = ()


@dataclass(frozen=True)
class Survey:
    """What one release, or one tree, does to patches. `name` is what was looked at."""

    name: str
    versions: Mapping[str, Version]
    python: str
    patches: tuple[PatchReport, ...]

    @property
    def fits(self) -> bool:
        """Whether nothing that is still needed fails to fit."""
        return not any(
            report.state in (State.NEEDS_VARIANT, State.DOES_NOT_FIT) for report in self.patches
        )

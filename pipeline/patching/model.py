"""What a patch is: edits in variants, with the tests that tell whether upstream has the fix."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.requirements import Requirement


@dataclass(frozen=True)
class UpstreamTest:
    """One sign that a release carries the fix: `contains` stands in `file` (in scope `within`)."""

    file: str
    contains: str
    within: str | None = None


@dataclass(frozen=True)
class Edit:
    """One exact replacement in one file.

    `file` is relative to site-packages, with `/`. `within` is a dotted scope (see `scopes`).
    `find` occurs exactly `count` times in that scope and all of them are replaced by `replace`.
    """

    id: str
    file: str
    find: str
    replace: str
    within: str | None = None
    count: int = 1


@dataclass(frozen=True)
class Variant:
    """The edits for some versions. `requirement` is the parsed `for`: a name and a specifier.

    Without edits the release itself is said to have the change, and `upstream` must show it; or
    `not_needed` says why these versions do without. `unverified` says why the edits could not be
    tried on the real files; "" when they were.
    """

    requirement: Requirement
    edits: tuple[Edit, ...]
    upstream: tuple[UpstreamTest, ...] = ()
    unverified: str = ""
    not_needed: str = ""

    @property
    def label(self) -> str:
        """The `for` line in one spelling, for reports: `vllm==0.30.*`."""
        return str(self.requirement)


@dataclass(frozen=True)
class Patch:
    """A named set of edits on the files of one distribution.

    `distribution` is a canonical name (PEP 503). `payloads` are the `replace-file` names that the
    patch reads, relative to its own directory, sorted: they belong to its inputs.
    """

    name: str
    title: str
    why: str
    upstream: str
    distribution: str
    variants: tuple[Variant, ...]
    payloads: tuple[str, ...] = ()

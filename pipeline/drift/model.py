"""The result of a drift: plain values, the same for every way of showing them.

`to_document` gives JSON values; members that have no value are left out of changes, never of
columns or images. Everything is in a fixed order: what can hurt first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding

COMPARISON_SCHEMA = "sm121-chain/drift/1"
HISTORY_SCHEMA = "sm121-chain/drift-history/1"

# What changed. A library is a shared object by its SONAME: the copy that the loader takes.
DISTRIBUTION, DEBIAN, LIBRARY = "distribution", "debian", "library"
KINDS = (DISTRIBUTION, DEBIAN, LIBRARY)

# How it changed. MOVED: the versions differ and have no order (PEP 440 knows one of them not).
# BUILD: the same public version, other local part. FILES: the same version, other files.
UP, DOWN, MOVED, BUILD = "up", "down", "moved", "changed-build"
ADDED, REMOVED, RENAMED = "added", "removed", "renamed"
FILES, ORIGIN = "files-changed", "origin-changed"
DIRECTIONS = (DOWN, UP, MOVED, BUILD, RENAMED, REMOVED, ADDED, ORIGIN, FILES)

# Of a requirement after the change: met; not met, and the ledger intends it, or it was the same
# before, or it is new.
MET, INTENDED, INHERITED, NEW = "met", "intended", "inherited", "new"

# What was compared: an image, an unpacked tree (no layers, no config), a lock (distributions only).
IMAGE, TREE, LOCK = "image", "tree", "lock"


@dataclass(frozen=True)
class Layer:
    """A layer of an image. `number` counts from 0, the lowest; `digest` is of the blob as it lies
    in the image ("" where that has none), `size` its bytes (0: unknown), `created_by` its line in
    the history. `stage` is the stage of the chain that wrote it, "" for any other layer."""

    number: int
    digest: str
    diff_id: str
    size: int = 0
    created_by: str = ""
    stage: str = ""

    def to_document(self) -> dict[str, Any]:
        """Return the layer as JSON."""
        return {
            "number": self.number,
            "digest": self.digest,
            "diff_id": self.diff_id,
            "size": self.size,
            "created_by": self.created_by,
            "stage": self.stage,
        }


@dataclass(frozen=True)
class Image:
    """What was compared. `subject` is how the user named it; `kind` is IMAGE, TREE or LOCK.

    `digest` (of the manifest), `config` and `fingerprint` are "sha256:<hex>", "" where unknown.
    `title` and `version` are the image's labels: of the chain's images the tag and the stage.
    `base_name` and `base_digest` are its labels too, "" without.
    """

    subject: str
    kind: str = IMAGE
    digest: str = ""
    config: str = ""
    fingerprint: str = ""
    title: str = ""
    version: str = ""
    architecture: str = ""
    base_name: str = ""
    base_digest: str = ""
    layers: tuple[Layer, ...] = ()
    distributions: int = 0

    def to_document(self) -> dict[str, Any]:
        """Return the image as JSON."""
        return {
            "subject": self.subject,
            "kind": self.kind,
            "digest": self.digest,
            "config": self.config,
            "fingerprint": self.fingerprint,
            "title": self.title,
            "version": self.version,
            "architecture": self.architecture,
            "base": {"name": self.base_name, "digest": self.base_digest},
            "layers": [layer.to_document() for layer in self.layers],
            "distributions": self.distributions,
        }


@dataclass(frozen=True, order=True)
class Wish:
    """Who requires something of what changed: `dependant` at `version` wants `requirement`
    ("nvidia-nccl-cu13==2.29.7"). `state` is MET, INTENDED, INHERITED or NEW; `why` is the ledger's
    reason for INTENDED."""

    dependant: str
    version: str
    requirement: str
    state: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.dependant} {self.version} wants {self.requirement}"

    def to_document(self) -> dict[str, str]:
        """Return the wish as JSON."""
        return _filled(
            dependant=self.dependant,
            version=self.version,
            requirement=self.requirement,
            state=self.state,
            why=self.why,
        )


@dataclass(frozen=True)
class Files:
    """Files of one distribution or package that differ, by path from the image root, sorted."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.changed) + len(self.added) + len(self.removed)

    def to_document(self) -> dict[str, list[str]]:
        """Return the files as JSON."""
        return {
            "changed": list(self.changed),
            "added": list(self.added),
            "removed": list(self.removed),
        }


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was.

    `kind` is one of KINDS, `direction` one of DIRECTIONS, `before` and `after` are versions ("" for
    none); of a library they are the paths of the copies that the loader takes. `was` is the earlier
    name of what is RENAMED. `rank` orders: 0 can hurt most; `family` is the family that it belongs
    to, "" for none, `gpu` whether it talks to the GPU. `layer` is the layer of B that did it (of
    what is REMOVED: that removed it), None where that is not known.
    `wishes` are the requirements on it that B does not meet, then those that are met by exactly
    this (`==`) and were not before. `reason` says what intends the change ("" for nothing): a pin
    of the lock, or the patches that changed the files.
    """

    kind: str
    name: str
    direction: str
    before: str
    after: str
    rank: int
    layer: Layer | None = None
    was: str = ""
    family: str = ""
    gpu: bool = False
    origin_before: str = ""
    origin_after: str = ""
    wishes: tuple[Wish, ...] = ()
    files: Files = Files()
    reason: str = ""

    def sort_key(self) -> tuple[int, int, int, str]:
        """Order for reports: what can hurt first."""
        return (self.rank, DIRECTIONS.index(self.direction), KINDS.index(self.kind), self.name)

    def to_document(self) -> dict[str, Any]:
        """Return the change as JSON."""
        document: dict[str, Any] = _filled(
            kind=self.kind,
            name=self.name,
            was=self.was,
            direction=self.direction,
            before=self.before,
            after=self.after,
            family=self.family,
            origin_before=self.origin_before,
            origin_after=self.origin_after,
            reason=self.reason,
        )
        document |= {"rank": self.rank, "gpu": self.gpu}
        if self.layer is not None:
            document["layer"] = self.layer.to_document()
        if self.wishes:
            document["wishes"] = [wish.to_document() for wish in self.wishes]
        if self.files.count:
            document["files"] = self.files.to_document()
        return document


@dataclass(frozen=True)
class Setting:
    """A part of the image's config that changed: what a container starts with.

    `name` is Env, Labels, Entrypoint, Cmd, User, WorkingDir, or architecture; `key` the variable or
    label, "" for the others. None is for what is not set. Lists are JSON text.
    """

    name: str
    key: str
    before: str | None
    after: str | None

    def to_document(self) -> dict[str, Any]:
        """Return the setting as JSON."""
        return {"name": self.name, "key": self.key, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class LoneFile:
    """A file that neither a distribution nor a Debian package owns, and that differs.

    `direction` is ADDED, REMOVED or FILES (other content, mode or link).
    """

    path: str
    direction: str
    layer: Layer | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the file as JSON."""
        document: dict[str, Any] = {"path": self.path, "direction": self.direction}
        if self.layer is not None:
            document["layer"] = self.layer.to_document()
        return document


@dataclass(frozen=True)
class Comparison:
    """What changed from image A (`before`) to image B (`after`).

    `shared` are the layers that both have, as in B; `gone` those of A alone, `new` those of B
    alone. `base_changed` is whether the two stand on different bases (None: not known).
    `findings` are of the audit's catalogue: the changes as findings, by severity.
    """

    before: Image
    after: Image
    shared: tuple[Layer, ...] = ()
    gone: tuple[Layer, ...] = ()
    new: tuple[Layer, ...] = ()
    base_changed: bool | None = None
    changes: tuple[Change, ...] = ()
    settings: tuple[Setting, ...] = ()
    files: tuple[LoneFile, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def worst(self) -> str | None:
        """The highest severity among the findings, None without any."""
        return _worst(self.findings)

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of package changes by direction, only those that occur."""
        all_of = [change.direction for change in self.changes]
        return {one: all_of.count(one) for one in DIRECTIONS if one in all_of}

    def to_document(self) -> dict[str, Any]:
        """Return the comparison as one JSON object; its form is fixed by `schema`."""
        return {
            "schema": COMPARISON_SCHEMA,
            "before": self.before.to_document(),
            "after": self.after.to_document(),
            "worst": self.worst,
            "counts": dict(self.counts),
            "layers": {
                "shared": [layer.to_document() for layer in self.shared],
                "gone": [layer.to_document() for layer in self.gone],
                "new": [layer.to_document() for layer in self.new],
            },
            "base_changed": self.base_changed,
            "changes": [change.to_document() for change in self.changes],
            "settings": [setting.to_document() for setting in self.settings],
            "files": [file.to_document() for file in self.files],
            "findings": [finding.to_json() for finding in self.findings],
        }


@dataclass(frozen=True)
class Column:
    """One image of a history. `name` heads it (a stage or a tag); `parent` names the column that it
    is compared with, "" for the first one. `state` is "built", or what the chain says of a
    stage without an image of its own ("held", "upstream", …), with its `reason`; such a column has
    the image of its parent. `comparison` is with the parent, None for the first one."""

    name: str
    parent: str
    image: Image
    state: str = "built"
    reason: str = ""
    comparison: Comparison | None = None

    def to_document(self) -> dict[str, Any]:
        """Return the column as JSON, without the changes: they are in the rows."""
        document: dict[str, Any] = {
            "name": self.name,
            "parent": self.parent or None,
            "state": self.state,
            "reason": self.reason,
            "image": self.image.to_document(),
        }
        if (found := self.comparison) is not None:
            document |= {
                "layers": {
                    "shared": len(found.shared),
                    "gone": len(found.gone),
                    "new": len(found.new),
                },
                "base_changed": found.base_changed,
                "settings": [setting.to_document() for setting in found.settings],
                "files": [file.to_document() for file in found.files],
            }
        return document


@dataclass(frozen=True)
class Row:
    """One package along a history. `versions` has one member a column, "" where it is not there;
    `changes` too: what changed from the column's parent, None for nothing."""

    kind: str
    name: str
    rank: int
    family: str
    gpu: bool
    versions: tuple[str, ...]
    changes: tuple[Change | None, ...]

    @property
    def moves(self) -> bool:
        """Whether anything about it ever changes."""
        return any(self.changes)

    def to_document(self) -> dict[str, Any]:
        """Return the row as JSON."""
        return {
            "kind": self.kind,
            "name": self.name,
            "rank": self.rank,
            "family": self.family,
            "gpu": self.gpu,
            "versions": list(self.versions),
            "changes": [change and change.to_document() for change in self.changes],
        }


@dataclass(frozen=True)
class History:
    """A whole line, or the tags of a repository, as one matrix: packages by images.

    `subject` names it. `rows` are all packages, those that change first, by rank; every row has
    exactly one member for each of `columns`.
    """

    subject: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def worst(self) -> str | None:
        """The highest severity among the findings, None without any."""
        return _worst(self.findings)

    def to_document(self) -> dict[str, Any]:
        """Return the history as one JSON object; its form is fixed by `schema`."""
        return {
            "schema": HISTORY_SCHEMA,
            "subject": self.subject,
            "worst": self.worst,
            "columns": [column.to_document() for column in self.columns],
            "rows": [row.to_document() for row in self.rows],
            "findings": [finding.to_json() for finding in self.findings],
        }


def _worst(findings: tuple[Finding, ...]) -> str | None:
    present = {finding.severity for finding in findings}
    return next((one for one in (ERROR, WARNING, NOTE) if one in present), None)


def _filled(**members: str) -> dict[str, str]:
    return {key: value for key, value in members.items() if value}

"""What is not as it was: packages, settings, files of nobody. Plain values for every report.

`to_document` gives JSON values; members that have no value are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.drift.images import Layer

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
    label, "" for the others. None is for what is not set. Lists are JSON text. `reason` says what
    intends the change, "" for nothing.
    """

    name: str
    key: str
    before: str | None
    after: str | None
    reason: str = ""

    def to_document(self) -> dict[str, Any]:
        """Return the setting as JSON."""
        document: dict[str, Any] = {"name": self.name, "key": self.key}
        document |= {"before": self.before, "after": self.after}
        return document | _filled(reason=self.reason)


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


def _filled(**members: str) -> dict[str, str]:
    return {key: value for key, value in members.items() if value}

"""The exceptions that a lock names: what is wrong with a wheel, and accepted with a reason."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Protocol

from packaging.utils import canonicalize_name

RECORD_MISMATCH = "record-mismatch"
WRONG_ARCHITECTURE = "wrong-arch"
FILE_CONFLICT = "file-conflict"
# Of all rules those that an installation asks; the others are an audit's alone.
OF_WHEELS = frozenset({RECORD_MISMATCH, WRONG_ARCHITECTURE, FILE_CONFLICT})


class Known(Protocol):
    """One `[[tool.sm121-chain.known]]` entry of the lock.

    `path` of a record-mismatch or wrong-arch is the member's, as the wheel's RECORD names it; of a
    file-conflict it is relative to site-packages or absolute in the image. `sha256` (hex) is of the
    content that is accepted, `owner` the distribution whose file is installed.
    """

    @property
    def rule(self) -> str: ...
    @property
    def distribution(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def why(self) -> str: ...


def select(known: Iterable[Known], rule: str, distribution: str) -> dict[str, Known]:
    """Return the entries for one rule and distribution by their path as written."""
    name = canonicalize_name(distribution)
    return {
        entry.path: entry
        for entry in known
        if entry.rule == rule and canonicalize_name(entry.distribution) == name
    }


def image_path(path: str, site_packages: str) -> str:
    """Return an entry's path as a path of the image, without leading slash."""
    return posixpath.normpath(posixpath.join(site_packages, path)).lstrip("/")

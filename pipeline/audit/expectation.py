"""What an audit holds an image against: plain values, whatever lock they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class LockedDistribution:
    """A pin as the lock spells it. `version` is None where the lock names none.

    `sha256` are the hashes, in hex, of the files that the lock allows for it.
    """

    name: str
    version: str | None
    sha256: tuple[str, ...] = ()


@dataclass(frozen=True)
class LedgerEntry:
    """An override: `requirement` stands in place of all others on the same distribution.

    `against` says who wants what instead ("torch 2.13.0 wants ==2.29.7"); `group` is the lock group
    that brings the override, "" for the base itself.
    """

    requirement: str
    against: tuple[str, ...]
    why: str
    group: str = ""


@dataclass(frozen=True)
class KnownFault:
    """A finding that is tolerated, with the reason.

    `path` is from the image root or from site-packages. With `sha256`, in hex, only a file of that
    content is tolerated. `owner` is the distribution whose file stays, for a conflict.
    """

    rule: str
    distribution: str
    why: str
    path: str = ""
    sha256: str = ""
    owner: str = ""


@dataclass(frozen=True)
class Probe:
    """Text, as bytes in the file's encoding, and the dotted scope that is searched ("": all)."""

    text: bytes
    within: str = ""
    count: int = 1


@dataclass(frozen=True)
class PatchExpectation:
    """A patch that the image must hold, as far as it concerns one file.

    `file` is from the image root. Every text of `must_contain` occurs at least `count` times, no
    text of `must_not` at all. `post_sha256` is the file's hash, in hex, after the last patch on it.
    """

    name: str
    file: str
    must_contain: tuple[Probe, ...] = ()
    must_not: tuple[Probe, ...] = ()
    post_sha256: str = ""


@dataclass(frozen=True)
class Expectation:
    """What an image should be. Without `distributions` (None) its pins are not judged.

    `label` names the source ("v8", "pylock.toml"), "" for none. `environment` is the PEP 508 marker
    environment of the image's Python and platform. `sites` are its site-packages directories, from
    the root; without any, all that are found count. `extras` are those that the lock's own
    requirements ask for, by normalised name. `ledger` is None for a lock that keeps none: then
    its pins themselves are what is intended.
    """

    environment: Mapping[str, str]
    label: str = ""
    distributions: tuple[LockedDistribution, ...] | None = None
    ledger: tuple[LedgerEntry, ...] | None = None
    known: tuple[KnownFault, ...] = ()
    patches: tuple[PatchExpectation, ...] = ()
    sites: tuple[str, ...] = ()
    extras: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @cached_property
    def pins(self) -> Mapping[str, LockedDistribution]:
        """Pins by normalised name (PEP 503)."""
        return {canonicalize_name(pin.name): pin for pin in self.distributions or ()}


def marker_environment(python: str, machine: str) -> dict[str, str]:
    """Return the PEP 508 environment of CPython `python` ("3.12.3") on Linux on `machine`."""
    return {
        "implementation_name": "cpython",
        "implementation_version": python,
        "os_name": "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]),
        "sys_platform": "linux",
    }

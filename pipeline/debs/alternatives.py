"""Alternatives: what update-alternatives would have made of the packages' postinst calls.

One table, taken from the postinst scripts of Debian 12. Each group has one candidate there, so the
choice needs no priorities; they are recorded for later installs in a derived image.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from pipeline.debs.nodes import Node
from pipeline.debs.unpack import merged


@dataclass(frozen=True)
class Alternative:
    """A group: the link at `link` (absolute) stands for `target`; followers move along with it.

    `followers` are (name, link, target). `name` is the group's name in /etc/alternatives.
    """

    name: str
    link: str
    target: str
    priority: int
    followers: tuple[tuple[str, str, str], ...] = ()


def _manual(name: str, program: str, section: int = 1) -> tuple[str, str, str]:
    directory = f"/usr/share/man/man{section}"
    page = f"{name}.{section}.gz"
    return page, f"{directory}/{page}", f"{directory}/{program}.{section}.gz"


def _which(language: str) -> tuple[str, str, str]:
    directory = f"/usr/share/man/{language}/man1"
    return f"which.{language}1.gz", f"{directory}/which.1.gz", f"{directory}/which.debianutils.1.gz"


ALTERNATIVES = (
    Alternative(
        "awk",
        "/usr/bin/awk",
        "/usr/bin/mawk",
        5,
        (
            _manual("awk", "mawk"),
            ("nawk", "/usr/bin/nawk", "/usr/bin/mawk"),
            _manual("nawk", "mawk"),
        ),
    ),
    Alternative(
        "builtins.7.gz",
        "/usr/share/man/man7/builtins.7.gz",
        "/usr/share/man/man7/bash-builtins.7.gz",
        10,
    ),
    Alternative("c++", "/usr/bin/c++", "/usr/bin/g++", 20),
    Alternative("c89", "/usr/bin/c89", "/usr/bin/c89-gcc", 20, (_manual("c89", "c89-gcc"),)),
    Alternative("c99", "/usr/bin/c99", "/usr/bin/c99-gcc", 20, (_manual("c99", "c99-gcc"),)),
    Alternative("cc", "/usr/bin/cc", "/usr/bin/gcc", 20),
    Alternative("cpp", "/lib/cpp", "/usr/bin/cpp", 10),
    Alternative("pager", "/usr/bin/pager", "/bin/more", 50, (_manual("pager", "more"),)),
    Alternative("rmt", "/usr/sbin/rmt", "/usr/sbin/rmt-tar", 50, (_manual("rmt", "rmt-tar", 8),)),
    Alternative(
        "which",
        "/usr/bin/which",
        "/usr/bin/which.debianutils",
        0,
        (
            _manual("which", "which.debianutils"),
            *(_which(language) for language in ("de", "es", "fr", "it", "ja", "pl", "sl")),
        ),
    ),
)


def alternatives(present: Container[str]) -> Iterator[Node]:
    """Yield links and state files of the groups whose target is `present` (merged paths).

    A follower whose own target is absent gets no links, as update-alternatives does it.
    """
    for group in ALTERNATIVES:
        if merged(group.target.lstrip("/")) not in present:
            continue
        followers = sorted(group.followers)
        pairs = [(group.name, group.link, group.target), *followers]
        for name, link, target in pairs:
            if merged(target.lstrip("/")) in present:
                yield Node.symlink(merged(link.lstrip("/")), f"/etc/alternatives/{name}")
                yield Node.symlink(f"etc/alternatives/{name}", target)
        yield Node.file(f"var/lib/dpkg/alternatives/{group.name}", _state(group))


def _state(group: Alternative) -> bytes:
    """Return the state file (update-alternatives.c, alternative_save)."""
    followers = sorted(group.followers)
    lines = ["auto", group.link]
    for name, link, _ in followers:
        lines += [name, link]
    lines += ["", group.target, str(group.priority)]
    lines += [target for _, _, target in followers]
    return ("\n".join(lines) + "\n\n").encode("ascii")

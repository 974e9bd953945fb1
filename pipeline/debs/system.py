"""The rest of what maintainer scripts set up: defaults that are copied, directories, links.

Taken from the postinst scripts of Debian 12's base-files, libc-bin, libpam-modules, login,
python3, readline-common and tzdata.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from pipeline.debs.accounts import GROUP_MASTER, PASSWD_MASTER, SHELLS
from pipeline.debs.certificates import STORE
from pipeline.debs.nodes import Node
from pipeline.debs.pam import PROFILES, TEMPLATES

_COPIES = {
    "etc/inputrc": "usr/share/readline/inputrc",
    "etc/motd": "usr/share/base-files/motd",
    "etc/nsswitch.conf": "usr/share/libc-bin/nsswitch.conf",
    "etc/profile": "usr/share/base-files/profile",
    "root/.bashrc": "usr/share/base-files/dot.bashrc",
    "root/.profile": "usr/share/base-files/dot.profile",
    "usr/share/info/dir": "usr/share/base-files/info.dir",
}
_DIRECTORIES = (
    *("etc/opt", "media", "mnt", "opt", "srv", "var/opt"),
    *(f"usr/local/{name}" for name in ("bin", "etc", "games", "include", "lib", "sbin", "share")),
    *("usr/local/share/man", "usr/local/src"),
)
_EMPTY = {
    "etc/.pwd.lock": 0o600,
    "etc/environment": 0o644,
    "etc/security/opasswd": 0o600,
    "var/log/btmp": 0o660,
    "var/log/faillog": 0o644,
    "var/log/lastlog": 0o664,
    "var/log/wtmp": 0o664,
}
_PYTHON = re.compile(r"(python3\.[0-9]+)-minimal")
_DEBIAN_CONFIG = b"""\
[DEFAULT]
# how to byte-compile (comma separated: standard, optimize)
byte-compile = standard
"""
# A container runtime mounts its own file over this one; without a runtime, localhost still works.
_HOSTS = b"""\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
"""


def is_needed(path: str) -> bool:
    """Whether the parts that make system files read the package file at this merged path."""
    return (
        path in _SOURCES
        or path.startswith((PROFILES, TEMPLATES, SHELLS))
        or (path.startswith(STORE) and path.endswith(".crt"))
    )


_SOURCES = frozenset((*_COPIES.values(), GROUP_MASTER, PASSWD_MASTER))


def system_files(files: Mapping[str, bytes], packages: Collection[str]) -> Iterator[Node]:
    """Yield the files; `files` maps merged paths to contents, `packages` holds names."""
    for path, source in _COPIES.items():
        if source in files:
            yield Node.file(path, files[source])
    for path in _DIRECTORIES:
        yield Node.directory(path)
    yield Node.directory("run/lock", 0o1777)
    yield Node.directory("var/mail", 0o775)
    yield Node.symlink("usr/local/man", "share/man")
    yield Node.symlink("var/spool/mail", "../mail")
    for path, mode in _EMPTY.items():
        yield Node.file(path, b"", mode)
    yield Node.file("etc/hosts", _HOSTS)
    if "base-files" in packages:
        yield Node.symlink("etc/dpkg/origins/default", "debian")
    for name in packages:
        if match := _PYTHON.fullmatch(name):
            yield Node.directory(f"usr/local/lib/{match[1]}/dist-packages")
    if "python3" in packages:
        yield Node.file("etc/python3/debian_config", _DEBIAN_CONFIG)
    if "tzdata" in packages:
        yield Node.symlink("etc/localtime", "/usr/share/zoneinfo/Etc/UTC")
        yield Node.file("etc/timezone", b"Etc/UTC\n")

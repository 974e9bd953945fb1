"""Users, groups, shells: base-passwd's masters and what passwd, debianutils, apt would add."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from pipeline.debs.nodes import Node
from pipeline.debs.unpack import merged
from pipeline.errors import Refusal

PASSWD_MASTER = "usr/share/base-passwd/passwd.master"
GROUP_MASTER = "usr/share/base-passwd/group.master"
SHELLS = "usr/share/debianutils/shells"

_FIRST_SYSTEM_GROUP = 101  # where addgroup --system starts looking on an empty system
_SECONDS_A_DAY = 86400


def accounts(files: Mapping[str, bytes], packages: Container[str], epoch: int) -> Iterator[Node]:
    """Yield passwd, group and their shadows.

    `files` holds base-passwd's masters, `epoch` becomes the day of the last change of passwords
    (shadow(5): days since 1970). Nobody has a password. Raises Refusal without the masters.
    """
    users = _lines(files, PASSWD_MASTER)
    groups = _lines(files, GROUP_MASTER)
    # The one group that a postinst of the locked set adds (libibverbs1: addgroup --system).
    added = [f"rdma:x:{_FIRST_SYSTEM_GROUP}:"] if "libibverbs1" in packages else []
    day = epoch // _SECONDS_A_DAY
    yield _text("etc/passwd", [_shadowed(line) for line in users])
    yield _text("etc/group", [*(_shadowed(line) for line in groups), *added])
    yield _text("etc/shadow", [f"{_name(line)}:*:{day}:0:99999:7:::" for line in users], 0o640)
    yield _text(
        "etc/gshadow",
        [*(f"{_name(line)}:*::" for line in groups), *(f"{_name(line)}:!::" for line in added)],
        0o640,
    )
    yield Node.file("etc/subuid", b"")
    yield Node.file("etc/subgid", b"")


def shells(files: Mapping[str, bytes]) -> Iterator[Node]:
    """Yield /etc/shells as update-shells makes it in a merged /usr: each shell by both paths."""
    if SHELLS not in files:
        return
    head = _lines(files, SHELLS)
    snippets = sorted(path for path in files if path.startswith(SHELLS + ".d/"))
    known: list[str] = []
    for path in [SHELLS, *snippets]:
        for line in _lines(files, path):
            shell = line.partition("#")[0].strip()
            if shell:
                known += dict.fromkeys([shell, "/" + merged(shell.lstrip("/"))])
    yield _text("etc/shells", [*head, *(shell for shell in known if shell not in head)])
    yield _text("var/lib/shells.state", known)


def _lines(files: Mapping[str, bytes], path: str) -> list[str]:
    if path not in files:
        raise Refusal(f"no package brings {path}", hint="add base-passwd to the base's packages")
    try:
        return files[path].decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise Refusal(f"{path} of the packages is no UTF-8 text: {error}") from error


def _text(path: str, lines: Iterable[str], mode: int = 0o644) -> Node:
    return Node.file(path, "".join(f"{line}\n" for line in lines).encode("utf-8"), mode)


def _name(line: str) -> str:
    return line.split(":", 1)[0]


def _shadowed(line: str) -> str:
    """Return the entry with its password moved to the shadow file (pwconv, grpconv)."""
    if line.count(":") < 2:
        raise Refusal(f"{line!r} in base-passwd's masters is no account")
    name, _, rest = line.split(":", 2)
    return f"{name}:x:{rest}"

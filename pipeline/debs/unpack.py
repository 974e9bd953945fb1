"""Unpack the data of .debs into a layer, with /bin, /sbin and /lib merged into /usr.

Debian 12 installs with a merged /usr while its packages still ship /bin, /sbin and /lib: dpkg
writes through the links. A layer has no links to write through, so the paths are mapped.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from pipeline.debs.archive import Deb, relative
from pipeline.errors import Refusal
from pipeline.oci.layer import LayerWriter
from pipeline.oci.tarstream import DIRECTORY, HARDLINK, SYMLINK, Member

MERGED = ("bin", "lib", "lib32", "lib64", "libo32", "libx32", "sbin")
"""Directories of the root that are links into /usr (usrmerge's list)."""

_ALWAYS = ("bin", "lib", "sbin")
REPLACED = {"var/lock": "/run/lock", "var/run": "/run"}
"""Directories that base-files ships and that its postinst turns into links."""


def merged(path: str) -> str:
    """Return where a path of a package lies in a merged /usr: bin/sh is usr/bin/sh."""
    first = path.split("/", 1)[0]
    return "usr/" + path if first in MERGED else path


@dataclass
class Unpacked:
    """What one package brought: `names` as dpkg lists them (original paths, tar order), and the
    contents of the files that were asked for, by merged path."""

    names: list[str] = field(default_factory=list)
    kept: dict[str, bytes] = field(default_factory=dict)


class Unpacker:
    """Writes the data of packages, one after the other, into one layer.

    `keep` says of which files (merged paths) the content is returned as well. Two packages may
    share directories of equal mode; anything else at one path is refused: nothing in the locked
    lists needs Replaces or a diversion of another package's file, and a guess would be silent.
    """

    def __init__(self, writer: LayerWriter, keep: Callable[[str], bool]):
        self._writer = writer
        self._keep = keep
        self._owners: dict[str, str] = {}
        self._aliases: set[str] = set(_ALWAYS)
        self.links: dict[str, str] = {}
        """Symbolic links written so far: merged path to target."""

    def add(self, package: str, deb: Deb) -> Unpacked:
        """Write one package's data. Raises Refusal for what does not belong into an image."""
        result = Unpacked()

        def visit(item: Member, stream: BinaryIO | None) -> None:
            name = relative(item.name)
            result.names.append(name)
            if name in MERGED:
                self._aliases.add(name)
            path = merged(name)
            if path and path not in REPLACED:
                self._add(package, path, item, stream, result)

        deb.walk(visit)
        return result

    def add_merged_links(self) -> None:
        """Write the links of the merged /usr (/bin -> usr/bin) and those of REPLACED."""
        for name in sorted(self._aliases):
            self._symlink("", name, f"usr/{name}")
        for path, target in sorted(REPLACED.items()):
            self._symlink("", path, target)

    def _add(
        self,
        package: str,
        path: str,
        item: Member,
        stream: BinaryIO | None,
        result: Unpacked,
    ) -> None:
        mode = item.mode & 0o7777
        if item.gid != 0:
            # Everything belongs to root here, and set-gid for another group would become
            # set-gid root: less than Debian gives is safe, more is not.
            mode &= ~0o2000
        if item.type == DIRECTORY and path in self._writer:
            try:
                self._writer.add_directory(path, mode)
            except Refusal as refusal:
                raise self._conflict(path) from refusal
            return
        if path in self._writer:
            raise self._conflict(path)
        if item.type == DIRECTORY:
            self._writer.add_directory(path, mode)
        elif item.type == SYMLINK:
            self._symlink(package, path, item.link)
        elif item.type == HARDLINK:
            self._writer.add_hardlink(path, merged(relative(item.link)))
        elif stream is not None:
            data: bytes | BinaryIO = stream
            if self._keep(path):
                data = result.kept[path] = stream.read()
            self._writer.add_file(path, data, item.size, mode)
        else:
            raise Refusal(f"{path} is neither file, directory nor link")
        self._owners[path] = package

    def _symlink(self, package: str, path: str, target: str) -> None:
        depth = 0 if target.startswith("/") else path.count("/")
        climbed = posixpath.normpath(target).split("/").count("..")
        if not target or (not target.startswith("/") and climbed > depth):
            raise Refusal(f"{path} links to {target!r}, which leads out of the root")
        self._writer.add_symlink(path, target)
        self._owners[path] = package
        self.links[path] = target

    def _conflict(self, path: str) -> Refusal:
        return Refusal(f"{path} is also in {self._owners.get(path, 'a directory of another mode')}")

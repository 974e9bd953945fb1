"""The members of a tar on disk, found by their headers alone and read where they lie."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import Refusal, UsageError
from pipeline.oci.blob import Part
from pipeline.oci.tarstream import FILE, HARDLINK, SYMLINK, TarFault, read_tar

MANIFEST, INDEX = "manifest.json", "index.json"
_MAX_JSON = 16 * 1024 * 1024
_MAX_LINKS = 8
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PACKED = {b"\x1f\x8b": "gunzip", b"\x28\xb5": "zstd -d", b"BZ": "bunzip2", b"\xfd7": "unxz"}
_AGAIN = "save or copy the image again"


class _Member(NamedTuple):
    offset: int
    size: int
    link: str


class Archive:
    """The members of the tar; what is wrong with them is raised as Refusal."""

    def __init__(self, path: Path):
        """Raises UsageError when there is no such file, or it is compressed; Refusal for no tar."""
        self.path = path
        if path.exists() and not path.is_file():  # a pipe can be read once only, a part cannot
            raise UsageError(f"{path} is no file", hint="name a `docker save` file")
        try:
            with path.open("rb") as file:
                packed = _PACKED.get(file.read(2))
                if packed:
                    raise UsageError(
                        f"{path}: the archive itself is compressed, so no part of it can be found",
                        hint=f"unpack it first: {packed} {path.name}",
                    )
                file.seek(0)
                self._members = {
                    posixpath.normpath(member.name): _Member(
                        member.offset, member.size, _target(member.name, member.type, member.link)
                    )
                    for member, _ in read_tar(file)
                    if member.type in (FILE, HARDLINK, SYMLINK)
                }
        except TarFault as error:
            raise self.refusal(f"no readable archive: {error}") from error
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}", hint="name a `docker save` file"
            ) from error

    def has(self, name: str) -> bool:
        """Whether there is a member of that name."""
        return name in self._members

    @property
    def is_layout(self) -> bool:
        """Whether it is an OCI layout in a tar, without what `docker save` adds."""
        return MANIFEST not in self._members and INDEX in self._members

    def document(self, descriptor: Mapping[str, Any]) -> bytes:
        """Return a small blob of a layout after holding it against its digest."""
        digest = descriptor.get("digest")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise self.refusal(f"{digest!r} is no sha256 digest")
        return self.small(self.stored(digest), digest)

    def small(self, part: Part, digest: str = "") -> bytes:
        """Return a member that is a document. Raises Refusal when it is not what `digest` says."""
        if part.size > _MAX_JSON:
            raise self.refusal(f"{part.name} has {part.size} bytes, which no document needs")
        with part.open_read() as file:
            data = file.read()
        found = "sha256:" + hashlib.sha256(data).hexdigest()
        if digest and found != digest:
            raise self.refusal(f"{part.name} holds {found}, not what its name says")
        return data

    def refusal(self, problem: str) -> Refusal:
        """Return the error that says what is wrong with the archive."""
        return Refusal(f"docker-archive:{self.path}: {problem}", hint=_AGAIN)

    def part(self, name: object) -> Part:
        """Return a member's place, links followed inside the archive."""
        if not isinstance(name, str):
            raise self.refusal(f"manifest.json names {name!r}, which is no file")
        found = posixpath.normpath(name)
        for _ in range(_MAX_LINKS):
            member = self._members.get(found)
            if member is None:
                raise self.refusal(f"{name} is not in it")
            if not member.link:
                return Part(self.path, member.offset, member.size, found)
            found = member.link
        raise self.refusal(f"{name} is a link without end")

    def stored(self, digest: str) -> Part:
        """Return the place of a blob that is kept under its digest."""
        name = f"blobs/sha256/{digest.removeprefix('sha256:')}"
        if name not in self._members:
            raise Refusal(
                f"digest-gone: docker-archive:{self.path} has no blob {digest}: an archive of"
                " unpacked layers holds neither a manifest nor the bytes that it names",
                hint="copy the image into a layout: skopeo copy --preserve-digests … oci:DIR",
            )
        return self.part(name)


def _target(name: str, kind: bytes, link: str) -> str:
    """Return the member that a link names: a symbolic one from its directory, a hard one whole."""
    if kind == FILE:
        return ""
    path = link if kind == HARDLINK else posixpath.join(posixpath.dirname(name), link)
    return posixpath.normpath(path)

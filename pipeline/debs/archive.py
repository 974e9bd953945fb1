"""Read a .deb: an ar archive of debian-binary, control.tar and data.tar (deb(5)).

Not through python-debian: it needs an outside `unzstd` for zst members, takes a member that ends
too early for a whole one, and reads a compressed tar at random, where this reads it once, in order.
"""

from __future__ import annotations

import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, NamedTuple, Protocol, cast

import zstandard

from pipeline.errors import Refusal

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_CHUNK = 64 * 1024
_MAX_CONTROL = 16 * 1024 * 1024
# ValueError is what tarfile lets through for numbers of a header that are none.
_DAMAGE = (tarfile.TarError, zlib.error, lzma.LZMAError, zstandard.ZstdError, EOFError, ValueError)

Visitor = Callable[[tarfile.TarInfo, BinaryIO | None], None]


class _Inflater(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


def _inflater(extension: str) -> _Inflater | None:
    if extension == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ)
    if extension == "gz":
        return zlib.decompressobj(wbits=31)
    if extension == "zst":
        return zstandard.ZstdDecompressor().decompressobj()
    return None


class _Member(NamedTuple):
    name: str
    offset: int
    size: int


class _Plain(io.RawIOBase):
    """The plain bytes of one ar member; raises EOFError when its compressed stream ends early."""

    def __init__(self, file: BinaryIO, member: _Member):
        self._file = file
        self._left = member.size
        self._extension = member.name.partition(".tar")[2].lstrip(".")
        self._inflater = _inflater(self._extension)
        self._ready = b""
        file.seek(member.offset)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and self._fill():
            pass
        part = self._ready[: len(buffer)]
        self._ready = self._ready[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def _fill(self) -> bool:
        raw = self._file.read(min(_CHUNK, self._left))
        self._left -= len(raw)
        if self._inflater is None:
            self._ready = raw
            return bool(raw)
        if not raw:
            if not self._inflater.eof:
                raise EOFError("compressed data ends too early")
            return False
        if self._inflater.eof:  # a second compressed stream follows the first
            self._inflater = self._next()
        plain = self._inflater.decompress(raw)
        while self._inflater.eof and self._inflater.unused_data:
            rest = self._inflater.unused_data
            self._inflater = self._next()
            plain += self._inflater.decompress(rest)
        self._ready = plain
        return True

    def _next(self) -> _Inflater:
        following = _inflater(self._extension)
        assert following is not None
        return following


class ControlFile(NamedTuple):
    """One file of control.tar: its mode and content."""

    mode: int
    data: bytes


@dataclass(frozen=True)
class Deb:
    """One .deb file on disk. Every method raises Refusal when the file is not a sound .deb."""

    path: Path

    def control(self) -> dict[str, ControlFile]:
        """Return the control files (control, md5sums, postinst …) by name."""
        found: dict[str, ControlFile] = {}
        room = _MAX_CONTROL

        def take(item: tarfile.TarInfo, stream: BinaryIO | None) -> None:
            nonlocal room
            name = relative(item.name)
            room -= item.size
            if stream is not None and name and "/" not in name and room >= 0:
                found[name] = ControlFile(item.mode & 0o777, stream.read())
            elif not item.isdir() or name:
                raise Refusal(f"control.tar holds {item.name!r}, which is no control file")

        self._walk("control.tar", take)
        if "control" not in found:
            raise self._refusal("control.tar has no file named control")
        return found

    def walk(self, visit: Visitor) -> None:
        """Call `visit` with every entry of data.tar, in its order, and its stream if a file."""
        self._walk("data.tar", visit)

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Put this file's name before the message of a Refusal that comes from inside."""
        try:
            yield
        except Refusal as refusal:
            raise self._refusal(refusal.message, refusal.hint) from refusal

    def _refusal(self, problem: str, hint: str | None = None) -> Refusal:
        return Refusal(
            f"{self.path.name}: {problem}", hint=hint or "fetch it again, or look at its source"
        )

    def _walk(self, stem: str, visit: Visitor) -> None:
        # `visit` runs inside this try, because damage shows while it reads a file's stream.
        with self._open(stem) as plain:
            try:
                with tarfile.open(
                    fileobj=plain, mode="r|", bufsize=_CHUNK, encoding="utf-8"
                ) as tar:
                    for item in tar:
                        stream = tar.extractfile(item) if item.isreg() else None
                        with self.blamed():
                            visit(item, cast("BinaryIO | None", stream))
                # tar stops at its end mark; the compressed stream must end well too.
                while plain.read(_CHUNK):
                    pass
            except _DAMAGE as error:
                raise self._refusal(f"{stem} is damaged: {error}") from error

    @contextmanager
    def _open(self, stem: str) -> Iterator[IO[bytes]]:
        with self.path.open("rb") as file:
            members = self._members(file)
            names = [member.name for member in members]
            if not names or names[0] != "debian-binary":
                raise self._refusal("is no Debian package")
            fitting = [member for member in members if member.name.startswith(stem)]
            if len(fitting) != 1:
                raise self._refusal(f"has {len(fitting)} members named {stem}, not one")
            if fitting[0].name not in {stem + end for end in ("", ".gz", ".xz", ".zst")}:
                raise self._refusal(f"{fitting[0].name} is compressed in a way that is not known")
            yield cast(IO[bytes], _Plain(file, fitting[0]))

    def _members(self, file: BinaryIO) -> list[_Member]:
        """Read the ar headers (deb(5): names fill 16 bytes, sizes are decimal, data is even)."""
        end = file.seek(0, io.SEEK_END)
        file.seek(0)
        if file.read(len(_AR_MAGIC)) != _AR_MAGIC:
            raise self._refusal("is no ar archive")
        members = []
        position = len(_AR_MAGIC)
        while position < end:
            header = file.read(_AR_HEADER)
            size = header[48:58].strip()
            if len(header) < _AR_HEADER or header[58:] != b"`\n" or not size.isdigit():
                raise self._refusal(f"has a broken ar header at byte {position}")
            offset = position + _AR_HEADER
            name = header[:16].decode("ascii", "replace").strip().removesuffix("/")
            members.append(_Member(name, offset, int(size)))
            position = offset + int(size) + int(size) % 2
            # The last member's padding byte may be absent.
            if offset + int(size) > end:
                raise self._refusal(f"ends inside its member {name}")
            file.seek(position)
        return members


def relative(name: str) -> str:
    """Return a tar member's name without its leading `./` and trailing slash ("" is the root).

    Raises Refusal for a name that is absolute or climbs.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if name.startswith("/") or ".." in parts:
        raise Refusal(f"{name!r} leads out of the root", hint="no Debian package has such a name")
    return "/".join(parts)

"""Read a .deb: an ar archive of debian-binary, control.tar and data.tar (deb(5)).

Not through python-debian: it needs an outside `unzstd` for zst members, takes a member that ends
too early for a whole one, and reads a compressed tar at random, where this reads it once, in order.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import zstandard

from pipeline.errors import Refusal
from pipeline.oci.blob import Part
from pipeline.oci.frames import FrameFault, find_frames
from pipeline.oci.tarstream import DIRECTORY, Member, TarFault, read_tar

_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60
_CHUNK = 64 * 1024
_BUFFER = 1024 * 1024
_MAX_CONTROL = 16 * 1024 * 1024
_MAX_MEMBERS = 32  # ar members; a package has three
_MAX_PADDING = 16 * 1024 * 1024  # bytes that may follow the end of a tar
# A package says in KiB what it takes when installed (Debian Policy 5.6.20). Nothing of bookworm
# unpacks to more than it says; what does so by far is made to fill a disk.
_INSTALLED = re.compile(rb"^Installed-Size:[ \t]*(\d{1,15})[ \t]*$", re.M)
_MAX_UNSAID = 256 * 1024 * 1024
_SLACK = 16 * 1024 * 1024
_XZ_MEMORY = 256 * 1024 * 1024  # bytes; what `xz -9` makes needs 65 MiB
_DAMAGE = (TarFault, FrameFault, zlib.error, gzip.BadGzipFile, lzma.LZMAError, EOFError,
           zstandard.ZstdError)  # fmt: skip

Visitor = Callable[[Member, BinaryIO | None], None]


class _Unxz(io.RawIOBase):
    """The plain bytes of xz streams, in bounded memory; raises EOFError for one that is cut."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._xz = self._new()
        self._rest = b""

    @staticmethod
    def _new() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while True:
            if self._xz.eof:  # a second stream may follow, after padding (xz format, 2.2)
                self._rest = self._xz.unused_data.lstrip(b"\0") or self._file.read(_CHUNK)
                if not self._rest.strip(b"\0"):
                    if not self._rest:
                        return 0
                    continue
                self._xz = self._new()
            if self._xz.needs_input and not self._rest:
                self._rest = self._file.read(_CHUNK)
                if not self._rest:
                    raise EOFError("compressed data ends too early")
            data = self._xz.decompress(self._rest, len(buffer))
            self._rest = b""
            if data:
                buffer[: len(data)] = data
                return len(data)


@contextmanager
def _plain(part: Part) -> Iterator[BinaryIO]:
    """Open the plain bytes of one ar member."""
    with part.open_read() as file:
        if part.name.endswith(".xz"):
            yield io.BufferedReader(_Unxz(file), _BUFFER)
        elif part.name.endswith(".gz"):
            with gzip.GzipFile(fileobj=file) as unzipped:
                yield cast(BinaryIO, unzipped)
        elif part.name.endswith(".zst"):
            find_frames(part)  # the reader below takes a stream that is cut off for a whole one
            zst = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            yield cast(BinaryIO, zst)
        else:
            yield file


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

        def take(item: Member, stream: BinaryIO | None) -> None:
            nonlocal room
            name = relative(item.name)
            room -= item.size
            if stream is not None and name and "/" not in name and room >= 0:
                found[name] = ControlFile(item.mode & 0o777, stream.read())
            elif item.type != DIRECTORY or name:
                raise Refusal(f"control.tar holds {item.name!r}, which is no control file")

        self._walk("control.tar", take)
        if "control" not in found:
            raise self._refusal("control.tar has no file named control")
        return found

    def walk(self, visit: Visitor) -> None:
        """Call `visit` with every entry of data.tar, in its order, and its stream if a file.

        What unpacks to far more than the package says it takes is refused before it is read.
        """
        room = limit = self._limit()

        def counted(item: Member, stream: BinaryIO | None) -> None:
            nonlocal room
            room -= item.size
            if room < 0:
                raise Refusal(
                    f"data.tar unpacks to more than {limit} bytes, far above what it says"
                )
            visit(item, stream)

        self._walk("data.tar", counted)

    def _limit(self) -> int:
        """Return how many bytes data.tar may hold."""
        try:
            said = _INSTALLED.search(self.control()["control"].data)
        except Refusal:
            said = None  # whoever asks for the control files is told what is wrong with them
        return 2 * 1024 * int(said[1]) + _SLACK if said else _MAX_UNSAID

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
        try:
            with _plain(self._part(stem)) as plain:
                for item, stream in read_tar(plain):
                    with self.blamed():
                        visit(item, stream)
                # The tar stops at its end mark; the compressed stream must end well too.
                rest = 0
                while more := plain.read(_CHUNK):
                    rest += len(more)
                    if rest > _MAX_PADDING:
                        raise self._refusal(f"{stem} goes on and on after its end")
        except _DAMAGE as error:
            raise self._refusal(f"{stem} is damaged: {error}") from error

    def _part(self, stem: str) -> Part:
        with self.path.open("rb") as file:
            members = self._members(file)
            if not members or members[0].name != "debian-binary":
                raise self._refusal("is no Debian package")
            file.seek(members[0].offset)
            version = file.read(min(members[0].size, 16))
        if not version.startswith(b"2."):  # deb(5): a reader must stop at another major version
            raise self._refusal(f"is of a format that is not known: {version!r}, not 2.0")
        fitting = [member for member in members if member.name.startswith(stem)]
        if len(fitting) != 1:
            raise self._refusal(f"has {len(fitting)} members named {stem}, not one")
        if fitting[0].name not in {stem + end for end in ("", ".gz", ".xz", ".zst")}:
            raise self._refusal(f"{fitting[0].name} is compressed in a way that is not known")
        return fitting[0]

    def _members(self, file: BinaryIO) -> list[Part]:
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
            members.append(Part(self.path, offset, int(size), name))
            if len(members) > _MAX_MEMBERS:
                raise self._refusal(f"has more than {_MAX_MEMBERS} members")
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

"""Read a tar as a stream, strictly and in flat memory, whatever its maker meant by it.

Formats: POSIX.1-2017 pax ("ustar Interchange Format", "pax Interchange Format"), and GNU tar's
long names and base-256 numbers. `tarfile` is not for archives of others: it takes a header that is
damaged for the end of the archive, so that what follows is not seen, and reads an extended header
of any declared size into memory.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import BinaryIO, NamedTuple, cast

from pipeline.oci.source import Source, TarFault

__all__ = ["Member", "TarFault", "members", "read_tar"]

BLOCK = 512
FILE, HARDLINK, SYMLINK, DIRECTORY = b"0", b"1", b"2", b"5"
CHAR, BLOCK_DEVICE, FIFO = b"3", b"4", b"6"
_REGULAR = (FILE, b"\0", b"7")  # also the flag of old archives, and "contiguous"
_TYPES = (HARDLINK, SYMLINK, CHAR, BLOCK_DEVICE, DIRECTORY, FIFO)
_LONG_NAME, _LONG_LINK = b"L", b"K"
_PAX, _PAX_SOLARIS, _PAX_GLOBAL = b"x", b"X", b"g"
_EXTENDED = (_LONG_NAME, _LONG_LINK, _PAX, _PAX_SOLARIS, _PAX_GLOBAL)
_SPARSE = b"S"
_POSIX = b"ustar\0"
_MAX_EXTENDED = 1024 * 1024  # bytes of an extended header; real ones have some hundred
_MAX_CHAIN = 16  # extended headers before one entry; real entries have three at most
MAX_ENTRIES = 1_000_000
# name; mode, uid and gid; size; mtime; checksum; type; link; magic; what is not looked at; prefix
_HEADER = struct.Struct("100s24s12s12s8sc100s6s82s155s12x")
_BLANK = 8 * 0x20  # what the checksum's own field counts for


class Member(NamedTuple):
    """An entry. `type` is one of this module's flags, `offset` where its data starts in the tar.

    Names are UTF-8; other bytes are kept as surrogates (PEP 383).
    """

    name: str
    type: bytes
    mode: int
    uid: int
    gid: int
    size: int
    mtime: int
    link: str
    offset: int


class _Stream(io.RawIOBase):
    """The data of one member."""

    def __init__(self, tar: Source, size: int):
        self._tar = tar
        self.left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        size = self.left if size < 0 else min(size, self.left)
        data = self._tar.exactly(size)
        self.left -= len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Extended:
    """What extended headers say of the entry that follows them."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.link: str | None = None
        self.size: int | None = None
        self.mtime: int | None = None
        self.count = 0

    def take(self, kind: bytes, data: bytes) -> None:
        self.count += 1
        if self.count > _MAX_CHAIN:
            raise TarFault("extended headers follow each other without end")
        if kind == _LONG_NAME:
            self.name = _text(data)
        elif kind == _LONG_LINK:
            self.link = _text(data)
        else:
            self._records(kind, data)

    def _records(self, kind: bytes, data: bytes) -> None:
        while data:
            length, space, _ = data.partition(b" ")
            size = int(length) if space and length.isdigit() and len(length) < 8 else 0
            record, data = data[:size], data[size:]
            key, equals, value = record[len(length) + 1 : -1].partition(b"=")
            if not equals or len(record) != size or not record.endswith(b"\n"):
                raise TarFault("a pax header holds no records")
            self._set(key, value, everywhere=kind == _PAX_GLOBAL)

    def _set(self, key: bytes, value: bytes, *, everywhere: bool) -> None:
        if key.startswith(b"GNU.sparse."):
            raise TarFault("it holds a sparse file, which no layer needs")
        if key not in (b"path", b"linkpath", b"size", b"mtime"):
            return
        if everywhere:
            if key != b"mtime":
                raise TarFault(f"a global pax header gives every entry one {key.decode()}")
        elif key == b"path":
            self.name = _text(value, whole=True)
        elif key == b"linkpath":
            self.link = _text(value, whole=True)
        elif key == b"size":
            self.size = _decimal(value)
        else:
            self.mtime = _seconds(value)


def read_tar(file: BinaryIO) -> Iterator[tuple[Member, BinaryIO | None]]:
    """Yield every entry, and the stream of its data for a file; unread data is passed over.

    After the last entry, the end of the archive has been read and what follows it not. Raises
    TarFault.
    """
    source = Source(file)
    for member in members(source):
        stream = _Stream(source, member.size) if member.type == FILE else None
        yield member, cast("BinaryIO | None", stream)


def members(source: Source) -> Iterator[Member]:
    """Yield every entry. Whoever takes one may read its data from the source, at most that.

    After the last entry, the end of the archive has been read and what follows it not. Raises
    TarFault.
    """
    extended = _Extended()
    entries = 0
    while header := source.upto(BLOCK):
        if len(header) < BLOCK:
            raise TarFault("it ends inside a header")
        if not header[0] and not header.strip(b"\0"):
            if source.upto(BLOCK).strip(b"\0"):
                raise TarFault("something follows the first half of its end")
            if extended.count:
                raise TarFault("an extended header has no entry")
            return
        fields = _HEADER.unpack(header)
        _check(header, fields[4])
        kind = fields[5]
        if kind in _EXTENDED:
            size = _number(fields[2], "size")
            if size > _MAX_EXTENDED:
                raise TarFault(f"an extended header declares {size} bytes")
            data = source.exactly(size)
            source.skip(-size % BLOCK)
            extended.take(kind, data)
            continue
        entries += 1
        if entries > MAX_ENTRIES:
            raise TarFault(f"it has more than {MAX_ENTRIES} entries")
        member = _member(fields, extended, source.position)
        if extended.count:
            extended = _Extended()
        yield member
        if member.size:
            end = member.offset + member.size
            source.skip(end + -end % BLOCK - source.position)
    if extended.count:
        raise TarFault("an extended header has no entry")
    if not source.position:
        raise TarFault("it is empty")


def _check(header: bytes, field: bytes) -> None:
    """Hold a header against its checksum: sums of bytes, by old programs of signed ones."""
    if header.isascii():
        # The lower half of Adler-32 is 1 + the sum of the bytes, while that is below 65521.
        found = (zlib.adler32(header) & 0xFFFF) - (zlib.adler32(field) & 0xFFFF) + _BLANK
        if field == b"%06o\0 " % found:  # as nearly everybody writes it
            return
    else:
        found = sum(header) - sum(field) + _BLANK
    said = _number(field, "checksum")
    if found == said:
        return
    high = sum(byte >= 0x80 for byte in header[:148] + header[156:])
    if found - 256 * high != said:
        raise TarFault("a header is damaged: wrong checksum")


_make_member = partial(tuple.__new__, Member)


def _member(fields: tuple[bytes, ...], extended: _Extended, position: int) -> Member:
    field, owner, length, time, _, kind, target, magic, _, start = fields
    name = field.partition(b"\0")[0].decode("utf-8", "surrogateescape")
    if start[0] and magic == _POSIX:
        name = f"{_directory(start)}/{name}"
    link = _text(target) if target[0] else ""
    size = _number(length, "size")
    mtime = _time(time)
    if extended.count:
        name = name if extended.name is None else extended.name
        link = link if extended.link is None else extended.link
        size = size if extended.size is None else extended.size
        mtime = mtime if extended.mtime is None else extended.mtime
    if kind in _REGULAR:
        kind = DIRECTORY if kind == b"\0" and name.endswith("/") else FILE
    elif kind == _SPARSE:
        raise TarFault("it holds a sparse file, which no layer needs")
    elif kind not in _TYPES:
        raise TarFault(f"entry {name!r} has unknown type {kind!r}")
    # What is no file has no data, whatever its header declares: as Go's and Python's readers.
    size = size if kind == FILE else 0
    return _make_member((name, kind, *_owner(owner), size, mtime, link, position))


# Most entries of a tar have the same ones.
@lru_cache(maxsize=1024)
def _owner(field: bytes) -> tuple[int, int, int]:
    """Return mode, uid and gid of a header."""
    return (
        _number(field[:8], "mode") & 0o7777,
        _number(field[8:16], "uid", negative=True),
        _number(field[16:], "gid", negative=True),
    )


@lru_cache(maxsize=1024)
def _directory(field: bytes) -> str:
    return _text(field)


@lru_cache(maxsize=1024)
def _time(field: bytes) -> int:
    return _number(field, "mtime", negative=True)


def _text(data: bytes, *, whole: bool = False) -> str:
    """Return a name; it ends at the first NUL, and a pax record's must not have one."""
    name, nul, _ = data.partition(b"\0")
    if whole and nul:
        raise TarFault("a name holds a NUL")
    return name.decode("utf-8", "surrogateescape")


def _number(field: bytes, what: str, *, negative: bool = False) -> int:
    """Return an octal number, or one in base 256, of which the first bit is set."""
    digits = field.partition(b"\0")[0]
    if digits and not digits.strip(b"01234567"):
        return int(digits, 8)
    if field[0] & 0x80:
        value = int.from_bytes(field, "big", signed=True)
        # The first bit only marks the form; of a positive number it is no sign.
        if field[0] == 0x80:
            value = int.from_bytes(field[1:], "big")
    else:
        digits = digits.strip(b" ")
        if digits.strip(b"01234567"):
            raise TarFault(f"a header has {digits!r} as its {what}")
        value = int(digits, 8) if digits else 0
    if value < 0 and not negative:
        raise TarFault(f"a header has a negative {what}")
    return value


def _decimal(value: bytes) -> int:
    if not value.isdigit() or len(value) > 19:
        raise TarFault(f"a pax header has {value[:32]!r} as its size")
    return int(value)


def _seconds(value: bytes) -> int:
    whole = value.partition(b".")[0]
    if not whole.removeprefix(b"-").isdigit() or len(whole) > 19:
        raise TarFault(f"a pax header has {value[:32]!r} as its mtime")
    return int(whole)

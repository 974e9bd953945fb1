"""Tar headers: POSIX ustar where an entry fits, with pax records only for what does not.

Format: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format". `tarfile` gives
every name above 100 bytes a pax header of 1536 bytes and more, though ustar's prefix field would
hold most of them; and it costs more per file than inflating most files of a wheel does.
"""

from __future__ import annotations

import tarfile

BLOCK = tarfile.BLOCKSIZE
_NAME, _PREFIX, _LINK = 100, 155, 100  # bytes of these fields
_MAX_SIZE = 8**11 - 1  # eleven octal digits
_FIXED = b"0000000\0" * 2  # uid and gid
_MAGIC = b"ustar\x0000" + bytes(32 + 32 + 8 + 8)  # then uname, gname and device numbers, all empty
_BLANK_CHECKSUM = b" " * 8


def tar_header(
    name: str, kind: bytes, *, mode: int, size: int = 0, mtime: int, link: str = ""
) -> bytes:
    """Return the header blocks of one entry, owned by uid and gid 0.

    `kind` is a type flag of `tarfile` (REGTYPE …), `size` in bytes, `mtime` in seconds since 1970.
    A directory's name gets its trailing slash here. Raises UnicodeEncodeError for surrogates.
    """
    full = name + "/" if kind == tarfile.DIRTYPE else name
    place = _split(full)
    if place is None or len(link) > _LINK or not link.isascii() or size > _MAX_SIZE:
        return _with_records(full, kind, mode, size, mtime, link)
    prefix, last = place
    return _ustar(last, prefix, kind, mode, size, mtime, link.encode("ascii"))


def _split(name: str) -> tuple[bytes, bytes] | None:
    """Return (prefix, name) as ustar holds them, None when it cannot."""
    if not name.isascii():
        return None
    data = name.encode("ascii")
    if len(data) <= _NAME:
        return b"", data
    # The slash between both is not stored; the name must not be empty.
    cut = data.find(b"/", len(data) - _NAME - 1, len(data) - 1)
    return (data[:cut], data[cut + 1 :]) if 0 < cut <= _PREFIX else None


def _ustar(
    name: bytes, prefix: bytes, kind: bytes, mode: int, size: int, mtime: int, link: bytes
) -> bytes:
    start = b"%b%07o\0%b%011o\0%011o\0" % (name.ljust(_NAME, b"\0"), mode, _FIXED, size, mtime)
    end = b"%b%b%b%b" % (kind, link.ljust(_LINK, b"\0"), _MAGIC, prefix.ljust(_PREFIX + 12, b"\0"))
    checksum = sum(start) + sum(_BLANK_CHECKSUM) + sum(end)
    return b"%b%06o\0 %b" % (start, checksum, end)


def _with_records(name: str, kind: bytes, mode: int, size: int, mtime: int, link: str) -> bytes:
    records = b""
    if _split(name) is None:
        records += _record("path", name)
    if len(link) > _LINK or not link.isascii():
        records += _record("linkpath", link)
    if size > _MAX_SIZE:
        records += _record("size", str(size))
        size = 0
    padded = records + bytes(-len(records) % BLOCK)
    header = _ustar(b"././@PaxHeader", b"", tarfile.XHDTYPE, 0o644, len(records), mtime, b"")
    short = name.encode("ascii", "replace")[:_NAME]
    target = link.encode("ascii", "replace")[:_LINK]
    return header + padded + _ustar(short, b"", kind, mode, size, mtime, target)


def _record(key: str, value: str) -> bytes:
    """Return a pax record; its decimal length counts itself."""
    rest = b" %b=%b\n" % (key.encode("ascii"), value.encode("utf-8"))
    length = len(rest)
    while len(str(length)) + len(rest) != length:
        length = len(str(length)) + len(rest)
    return str(length).encode("ascii") + rest

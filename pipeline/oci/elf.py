"""What a dynamic loader reads of an ELF file: SONAME, NEEDED, RPATH, RUNPATH.

Format: System V gABI, chapters 4 and 5 ("Dynamic Section"). Only headers, the dynamic segment and
single strings are read, whatever the size of the file, and nothing that it says of itself is
believed beyond fixed bounds: it comes from whoever made the image.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

_IDENTITY = 16
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 14, 15, 29
_ET_EXEC, _ET_DYN = 2, 3
_MAX_SEGMENTS = 256
_MAX_TAGS = 4096
_MAX_TEXT = 4096  # bytes of a name or a search path


class Elf(NamedTuple):
    """A file that the dynamic loader loads. `soname`, `rpath` and `runpath` are "" without one;
    `executable` is whether it is a program that is linked to a fixed address."""

    soname: str
    needed: tuple[str, ...]
    rpath: str = ""
    runpath: str = ""
    executable: bool = False


class _Layout(NamedTuple):
    """Where the fields of a class of ELF are (gABI 4, "ELF Header", "Program Header")."""

    header: str  # type, machine, version, entry, phoff, shoff, flags, ehsize, phentsize, phnum
    segment: str
    tag: str


_64 = _Layout("HHIQQQIHHH", "IIQQQQQQ", "qQ")
_32 = _Layout("HHIIIIIHHH", "IIIIIIII", "iI")


class _Segment(NamedTuple):
    kind: int
    offset: int
    address: int
    size: int


def read_elf(file: BinaryIO) -> Elf | None:
    """Return what the loader reads of a file; None for one that it does not load."""
    try:
        return _read(file)
    except (struct.error, ValueError, OverflowError):
        return None


def _read(file: BinaryIO) -> Elf | None:
    found = _header(file)
    if found is None:
        return None
    kind, layout, order, segments = found
    dynamic = next((one for one in segments if one.kind == _PT_DYNAMIC), None)
    if dynamic is None:
        return None
    tags = list(_tags(file, layout, order, dynamic))
    strings = next((value for tag, value in tags if tag == _DT_STRTAB), None)
    if strings is None:
        return None
    table = _offset(segments, strings)

    def texts(wanted: int) -> list[str]:
        return [_text(file, table + value) for tag, value in tags if tag == wanted]

    def first(wanted: int) -> str:
        return next(iter(texts(wanted)), "")

    runpath = first(_DT_RUNPATH)
    return Elf(
        soname=first(_DT_SONAME),
        needed=tuple(texts(_DT_NEEDED)),
        rpath="" if runpath else first(_DT_RPATH),  # ignored beside a RUNPATH (ld.so(8))
        runpath=runpath,
        executable=kind == _ET_EXEC,
    )


def _header(file: BinaryIO) -> tuple[int, _Layout, str, list[_Segment]] | None:
    identity = _at(file, 0, _IDENTITY)
    if identity[:4] != b"\x7fELF" or identity[4] not in (1, 2) or identity[5] not in (1, 2):
        return None
    layout, order = (_64 if identity[4] == 2 else _32), "<>"[identity[5] - 1]
    header = struct.unpack(
        order + layout.header, _at(file, _IDENTITY, struct.calcsize(order + layout.header))
    )
    kind, start, entry, count = header[0], header[4], header[8], header[9]
    if kind not in (_ET_EXEC, _ET_DYN) or count > _MAX_SEGMENTS:
        return None
    segments = [
        _segment(layout, order, _at(file, start + number * entry, entry)) for number in range(count)
    ]
    return kind, layout, order, segments


def dynamic_span(file: BinaryIO) -> tuple[int, int] | None:
    """Return where in a file its dynamic segment begins, and how many bytes of it are looked at;
    None where `read_elf` would say None. Only headers are read."""
    try:
        found = _header(file)
    except (struct.error, ValueError, OverflowError):
        return None
    if found is None:
        return None
    _, layout, order, segments = found
    most = _MAX_TAGS * struct.calcsize(order + layout.tag)
    spans = ((one.offset, min(one.size, most)) for one in segments if one.kind == _PT_DYNAMIC)
    return next(spans, None)


def _segment(layout: _Layout, order: str, data: bytes) -> _Segment:
    fields = struct.unpack_from(order + layout.segment, data)
    if layout is _64:
        kind, _, offset, address, _, size = fields[:6]
    else:
        kind, offset, address, _, size = fields[:5]
    return _Segment(kind, offset, address, size)


def _tags(
    file: BinaryIO, layout: _Layout, order: str, dynamic: _Segment
) -> Iterator[tuple[int, int]]:
    width = struct.calcsize(order + layout.tag)
    data = _at(file, dynamic.offset, min(dynamic.size // width, _MAX_TAGS) * width)
    for tag, value in struct.iter_unpack(order + layout.tag, data):
        if tag == _DT_NULL:
            return
        yield tag, value


def _offset(segments: list[_Segment], address: int) -> int:
    """Return where in the file an address of the memory image is."""
    for one in segments:
        if one.kind == _PT_LOAD and one.address <= address < one.address + one.size:
            return address - one.address + one.offset
    raise ValueError("the string table is in no segment")


def _text(file: BinaryIO, offset: int) -> str:
    file.seek(offset)
    text, end, _ = file.read(_MAX_TEXT).partition(b"\0")
    if not end:
        raise ValueError("a string without an end")
    return text.decode("utf-8", "surrogateescape")


def _at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    data = file.read(size)
    if len(data) < size:
        raise ValueError("it ends early")
    return data

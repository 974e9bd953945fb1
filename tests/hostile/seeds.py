"""The seed corpus: small inputs that are made to mislead, each under the name of its fault.

They are written out here rather than stored as files, so that a reader sees what is wrong with
each. The property tests change single bytes of them, and of sound ones.
"""

from __future__ import annotations

import gzip
import io
import lzma
import struct
import zipfile
from collections.abc import Callable

import zstandard

BLOCK = 512
END = bytes(2 * BLOCK)


def header(
    name: bytes = b"x",
    size: bytes | int = 0,
    kind: bytes = b"0",
    link: bytes = b"",
    *,
    mtime: bytes = b"0" * 11,
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
) -> bytes:
    """Return a tar header with a right checksum; a number may be given as its field's bytes."""
    field = b"%011o\0" % size if isinstance(size, int) else size.ljust(12, b"\0")
    start = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + field
    start += mtime.ljust(12, b"\0")
    end = kind + link.ljust(100, b"\0") + magic + bytes(80) + prefix.ljust(155, b"\0") + bytes(12)
    checksum = sum(start) + sum(end) + 8 * 0x20
    return start + b"%06o\0 " % checksum + end


def entry(data: bytes, **fields: object) -> bytes:
    """Return a header and its data."""
    return header(size=len(data), **fields) + data + bytes(-len(data) % BLOCK)  # type: ignore[arg-type]


def pax(*records: bytes, kind: bytes = b"x") -> bytes:
    """Return an extended header of records, which carry their own lengths."""
    return entry(b"".join(records), kind=kind)


def record(key: bytes, value: bytes) -> bytes:
    """Return a pax record with a right length."""
    rest = b" %b=%b\n" % (key, value)
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length += 1
    return b"%d" % length + rest


SOUND_TAR = (
    header(b"d/", kind=b"5")
    + entry(b"data", name=b"d/file")
    + header(b"d/link", kind=b"2", link=b"file")
    + header(b"d/hard", kind=b"1", link=b"d/file")
    + pax(record(b"path", b"d/\xc3\xbcber/name"))
    + entry(b"more", name=b"short")
    + entry(b"d/" + b"n" * 150 + b"\0", name=b"././@LongLink", kind=b"L")
    + entry(b"long", name=b"d/nnn")
    + END
)

TARS: dict[str, tuple[bytes, str]] = {
    "climbs": (entry(b"", name=b"../../etc/passwd") + END, "climbs out"),
    "climbs in the middle": (entry(b"", name=b"a/../../x") + END, "climbs out"),
    "climbs by pax": (pax(record(b"path", b"../../etc/x")) + entry(b"") + END, "climbs out"),
    "climbs by prefix": (entry(b"", name=b"x", prefix=b"../..") + END, "climbs out"),
    "hard link out": (header(b"a", kind=b"1", link=b"../../etc/shadow") + END, "climbs out"),
    "NUL in a pax path": (pax(record(b"path", b"a\0b")) + entry(b"") + END, "holds a NUL"),
    "pax header of 8 GiB": (header(kind=b"x", size=8**11 - 1), "declares 8589934591 bytes"),
    "long name of 8 GiB": (header(kind=b"L", size=8**11 - 1), "declares 8589934591 bytes"),
    "pax headers without end": (pax(record(b"path", b"a")) * 40 + entry(b"") + END, "without end"),
    "pax without entry": (pax(record(b"path", b"a")) + END, "no entry"),
    "pax of nothing": (pax(b"not a record\n") + entry(b"") + END, "no records"),
    "pax length that lies": (pax(b"99 path=a\n") + entry(b"") + END, "no records"),
    "pax length zero": (pax(b"0 path=a\n") + entry(b"") + END, "no records"),
    "pax length of many digits": (pax(b"9" * 99 + b" p=a\n") + entry(b"") + END, "no records"),
    "pax size negative": (pax(record(b"size", b"-5")) + entry(b"") + END, "as its size"),
    "pax size of many digits": (pax(record(b"size", b"9" * 98)) + entry(b"") + END, "size"),
    "pax time infinite": (pax(record(b"mtime", b"inf")) + entry(b"") + END, "as its mtime"),
    "global path": (pax(record(b"path", b"a"), kind=b"g") + entry(b"") + END, "global pax header"),
    "sparse by pax": (pax(record(b"GNU.sparse.major", b"1")) + entry(b"") + END, "sparse"),
    "sparse by type": (header(kind=b"S") + END, "sparse"),
    "negative size": (header(size=b"\xff" * 12) + END, "negative size"),
    "size of no digits": (header(size=b"12x") + END, "as its size"),
    "size beyond the end": (header(size=10_000) + b"short", "ends inside"),
    "size in base 256 beyond the end": (header(size=b"\x80" + b"\x7f" * 11) + END, "ends inside"),
    "wrong checksum": (header()[:-1] + b"!" + END, "wrong checksum"),
    "damage in the middle": (
        entry(b"") + b"\1" * BLOCK + entry(b"", name=b"hidden") + END,
        "header",
    ),
    "hidden behind half an end": (entry(b"") + bytes(BLOCK) + entry(b"") + END, "first half"),
    "half a header": (entry(b"") + header()[:100], "ends inside a header"),
    "device of no type": (header(kind=b"9") + END, "unknown type"),
    "whiteout of nothing": (entry(b"", name=b"d/.wh.") + END, "removes nothing"),
    "whiteout of the parent": (entry(b"", name=b"d/.wh...") + END, "removes nothing"),
    "empty": (b"", "empty"),
}


def _frame(content: int, window: int | None = None) -> bytes:
    """Return a zstd frame that declares a content, or a window, and holds one byte."""
    if window is not None:
        head = bytes([0b1100_0000, window]) + struct.pack("<Q", content)
    else:
        head = bytes([0b1110_0000]) + struct.pack("<Q", content)
    return b"\x28\xb5\x2f\xfd" + head + b"\x09\x00\x00x"


_ZSTD = zstandard.ZstdCompressor().compress(SOUND_TAR)
ZSTD: dict[str, bytes] = {
    "declares a terabyte": _frame(1 << 40),
    "declares all there is": _frame((1 << 64) - 2),
    "window of 2 TiB": _frame(1 << 40, window=0xF8),
    "cut off": _ZSTD[:-1],
    "cut off inside a block": _ZSTD[: len(_ZSTD) // 2],
    "followed by something": _ZSTD + b"else",
    "reserved block": b"\x28\xb5\x2f\xfd\x20\x01\x0f\x00\x00",
    "header alone": b"\x28\xb5\x2f\xfd",
    "skippable that lies": _ZSTD + b"\x50\x2a\x4d\x18\xff\xff\xff\xff",
}
GZIP: dict[str, bytes] = {
    "cut off": gzip.compress(SOUND_TAR, mtime=0)[:-9],
    "wrong checksum": gzip.compress(SOUND_TAR, mtime=0)[:-8] + bytes(8),
    "followed by something": gzip.compress(SOUND_TAR, mtime=0) + b"else",
    "header alone": b"\x1f\x8b",
}


def _zip(*members: tuple[str, bytes], change: Callable[[bytes], bytes] = bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.filename = info.orig_filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return change(buffer.getvalue())


META = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
WHEEL = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
INFO = "demo-1.0.dist-info"


def wheel(*members: tuple[str, bytes], record: bytes = b"") -> bytes:
    """Return a wheel whose RECORD is as given."""
    own = [(f"{INFO}/METADATA", META), (f"{INFO}/WHEEL", WHEEL), (f"{INFO}/RECORD", record)]
    return _zip(*members, *own)


def _directory_size(data: bytes) -> bytes:
    at = data.rindex(b"PK\5\6")
    return data[: at + 12] + struct.pack("<L", 0x7FFFFFFF) + data[at + 16 :]


def _directory_size_64(data: bytes) -> bytes:
    at = data.rindex(b"PK\5\6")
    zip64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, 1 << 40, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    end = data[at : at + 12] + b"\xff" * 8 + data[at + 20 :]
    return data[:at] + zip64 + locator + end


_DEMO = ("demo.py", b"X = 1\n")
WHEELS: dict[str, bytes] = {
    "climbs": wheel(("../demo.py", b"")),
    "absolute": wheel(("/etc/passwd", b"")),
    "drive": wheel(("C:/x", b"")),
    "backslash": wheel(("a\\..\\b", b"")),
    "NUL": wheel(("a\0.py", b"")),
    "not UTF-8 names": wheel(_DEMO).replace(b"demo.py", b"dem\xff.py"),
    "twice": wheel(_DEMO, _DEMO),
    "whiteout": wheel((".wh.demo.py", b"")),
    "RECORD says nothing": wheel(_DEMO),
    "RECORD with a size of many digits": wheel(
        _DEMO, record=b"demo.py,sha256=" + b"A" * 43 + b"," + b"9" * 5000 + b"\n"
    ),
    "RECORD climbs": wheel(record=b"../../etc/passwd,,\n"),
    "directory of 2 GiB": _directory_size(wheel(_DEMO)),
    "zip64 directory of a terabyte": _directory_size_64(wheel(_DEMO)),
    "no directory": wheel(_DEMO)[:60],
    "no zip": b"PK\3\4" + bytes(100),
}


def ar(*members: tuple[str, bytes], size: str = "") -> bytes:
    """Return an ar archive; with `size` the last member's header says that."""
    parts = [b"!<arch>\n"]
    for number, (name, data) in enumerate(members):
        said = size if size and number == len(members) - 1 else str(len(data))
        parts.append(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{said:<10}`\n".encode())
        parts.append(data + b"\n" * (len(data) % 2))
    return b"".join(parts)


_DEBIAN = ("debian-binary", b"2.0\n")


def deb(tar: bytes, end: str = "", says: int | None = None) -> bytes:
    """Return a .deb with this data.tar, that says it takes so many KiB."""
    text = b"Package: demo\nVersion: 1\nArchitecture: arm64\n"
    text += b"Installed-Size: %d\n" % says if says is not None else b""
    control = entry(text, name=b"./control") + END
    return ar(_DEBIAN, ("control.tar", control), (f"data.tar{end}", tar))


# A dictionary of 4 GiB - 1 is what the last byte of LZMA2's properties asks for (xz format, 5.3.1).
_XZ = lzma.compress(SOUND_TAR)
GZIP_ENDLESS = gzip.compress(SOUND_TAR + bytes(17 * 1024 * 1024))
SOUND_DEB = deb(SOUND_TAR)
DEBS: dict[str, bytes] = {
    "climbs": deb(TARS["climbs"][0]),
    "hard link out": deb(TARS["hard link out"][0]),
    "device": deb(header(b"./dev/sda", kind=b"4") + END),
    "link out": deb(header(b"./etc/x", kind=b"2", link=b"../../../etc/passwd") + END),
    "pax header of 8 GiB": deb(TARS["pax header of 8 GiB"][0]),
    "xz cut off": deb(_XZ[:-20], ".xz"),
    "xz followed by something": deb(_XZ + b"else", ".xz"),
    "gz cut off": deb(GZIP["cut off"], ".gz"),
    "zst cut off": deb(ZSTD["cut off"], ".zst"),
    "zst declares a terabyte": deb(ZSTD["declares a terabyte"], ".zst"),
    "member beyond the end": ar(_DEBIAN, ("data.tar", b"x"), size="999999"),
    "negative member": ar(_DEBIAN, ("data.tar", b"x"), size="-1"),
    "two data members": ar(_DEBIAN, ("data.tar", END), ("data.tar.gz", b"")),
    "members without end": ar(_DEBIAN, *[("x", b"")] * 100),
    "no archive": b"!<arch>\nnonsense",
    "format of tomorrow": SOUND_DEB.replace(b"2.0\n", b"9.0\n"),
    "format without a version": SOUND_DEB.replace(b"2.0\n", b"\n\n\n\n"),
    "takes more than it says": deb(header(b"./usr/x", 18 * 1024 * 1024), says=100),
    "takes more than anything": deb(header(b"./usr/x", 257 * 1024 * 1024)),
    "goes on after its end": deb(GZIP_ENDLESS, ".gz"),
}

RECORDS: dict[str, bytes] = {
    "one column": b"a.py\n",
    "no UTF-8": b"a\xff.py,,\n",
    "NUL": b"a\0.py,,\n",
    "field of a megabyte": b'"' + b"a" * 1_000_000 + b'",,\n',
    "open quote": b'"a.py,,\n',
    "size of many digits": b"a.py,," + b"9" * 5000 + b"\n",
    "hash of nothing": b"a.py,sha256=,1\n",
    "hash of no base64": b"a.py,sha256=\xe4\xbd\xa0,1\n",
}
METADATA: dict[str, bytes] = {
    "empty": b"",
    "no name": b"Version: 1\n",
    "two names": b"Name: a\nName: b\nVersion: 1\n",
    "name that climbs": b"Name: ../../x\nVersion: 1\n",
    "name with a NUL": b"Name: a\0\nVersion: 1\n",
    "version of many digits": b"Name: a\nVersion: " + b"9" * 5000 + b"\n",
    "no UTF-8": b"Name: \xff\nVersion: 1\n",
}
REQUIREMENTS: tuple[str, ...] = (
    "(" * 2000,
    "a; " + "(" * 1500 + 'os_name == "posix"' + ")" * 1500,
    'a; python_version ~= "x"',
    'a; extra == "b" and no_such == "c"',
    "a ===\0",
    "a==" + "9" * 5000,
    "a @ file:///etc/passwd",
    "\ud800",
    "",
)
DIRECT_URLS: dict[str, bytes] = {
    "deep": b"[" * 100_000,
    "list": b"[]",
    "number as url": b'{"url": 5, "dir_info": {}}',
    "bad address": b'{"url": "http://[::1", "dir_info": {}}',
    "odd members": b'{"url": "x", "vcs_info": []}',
    "hashes as text": b'{"url": "x", "archive_info": {"hashes": "abc"}}',
    "no JSON": b"{",
}
TOML: dict[str, bytes] = {
    "deep": b"a = " + b"[" * 50_000,
    "many digits": b"a = " + b"9" * 5000 + b"\n",
    "no UTF-8": b'a = "\xff"\n',
    "NUL": b'a = "\0"\n',
    "impossible date": b"a = 2026-02-31\n",
    "twice": b"a = 1\na = 2\n",
}

"""The zip directory of a wheel, judged before anything is read.

Formats: APPNOTE.TXT for zip, and the binary distribution format (PEP 427).
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable
from typing import BinaryIO

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.errors import Refusal

UNFIT = re.compile(r"[\x00-\x1f\x7f\\]")  # what no name in a wheel or layer may hold
_ENCRYPTED = 0x1 | 0x40

MAX_DIRECTORY = 16 * 1024 * 1024  # bytes; zipfile holds the whole of it, and a wheel needs one
_END = struct.Struct("<4s4H2LH")  # APPNOTE 4.3.16: the end of the central directory
_END64 = struct.Struct("<4sQ2H2L4Q")  # 4.3.14
_LOCATOR64 = 20  # bytes between both
_MAX_COMMENT = 0xFFFF
_IN_ZIP64 = 0xFFFFFFFF

# What zipfile raises for a damaged file, by what the damage hits: the directory, a member's header
# (encrypted, of a method that is not known, at a place before the file), or its data.
DAMAGE = (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, EOFError, OSError)

Faults = list[tuple[str, str]]


def refusal(filename: str, faults: Iterable[tuple[str, str]]) -> Refusal:
    """Return one Refusal for (member, problem) pairs; member "" is the wheel itself."""
    lines = [f"{member}: {problem}" if member else problem for member, problem in faults]
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return Refusal(
        f"{filename}: {lines[0]}{more}",
        hint="fetch the wheel again; when it is the same, pin another build of it",
        details=lines if len(lines) > 1 else (),
    )


def check_directory(filename: str, file: BinaryIO) -> None:
    """Refuse a zip directory that is too large to be held, by the size that its end declares.

    What has no such end is left to `zipfile` to refuse.
    """
    length = file.seek(0, os.SEEK_END)
    file.seek(max(0, length - _MAX_COMMENT - _END.size - _LOCATOR64 - _END64.size))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        return
    size = _END.unpack_from(tail, at)[5]
    before = at - _LOCATOR64 - _END64.size
    if size == _IN_ZIP64 and before >= 0 and tail.startswith(b"PK\6\6", before):
        size = _END64.unpack_from(tail, before)[8]
    if size > MAX_DIRECTORY:
        raise refusal(filename, [("", f"its directory has {size:,} bytes, which no wheel needs")])


def read_directory(filename: str, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the files of a wheel by name, in zip order. Raises one Refusal with all faults."""
    faults: Faults = []
    files: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        # zipfile cuts names at a NUL; orig_filename has all of it.
        name = info.orig_filename
        folder = name.endswith("/")
        problem = _name_problem(name[:-1] if folder else name) or _type_problem(info, folder)
        if not problem and name in files:
            problem = "is in the wheel twice"
        end = info.header_offset + info.compress_size
        if not problem and not 0 <= info.header_offset <= end <= archive.start_dir:
            problem = "lies outside the wheel: it is damaged"
        if problem:
            faults.append((repr(name) if UNFIT.search(name) else name, problem))
        elif not folder:
            files[name] = info
    parents: set[str] = set()
    for name in files:
        parent = posixpath.dirname(name)
        while parent and parent not in parents:
            parents.add(parent)
            parent = posixpath.dirname(parent)
    faults.extend((name, "is a file and a directory") for name in files if name in parents)
    if faults:
        raise refusal(filename, faults)
    return files


def _name_problem(name: str) -> str:
    if UNFIT.search(name):
        return "has a backslash or a control character in its name"
    if name.startswith("/") or re.match("[A-Za-z]:/", name):
        return "is an absolute path"
    if ".." in name.split("/"):
        return "climbs out of the wheel"
    if not name or posixpath.normpath(name) != name or name == ".":
        return "is not a normal path"
    if posixpath.basename(name).startswith(".wh."):
        return "has a name that would be a whiteout in a layer"
    return ""


def _type_problem(info: zipfile.ZipInfo, folder: bool) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "is a symbolic link"
    if kind not in (0, stat.S_IFDIR if folder else stat.S_IFREG):
        return "is neither file nor directory"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"is compressed with method {info.compress_type}; stored and deflate are accepted"
    if folder and info.file_size:
        return "is a directory with content"
    return ""


def find_dist_info(filename: str, files: Iterable[str], name: str, version: Version) -> str:
    """Return the one dist-info directory. Raises Refusal unless it fits the file name's parts."""
    tops = {path.split("/", 1)[0] for path in files if "/" in path}
    found = sorted(top for top in tops if top.endswith(".dist-info"))
    if len(found) != 1:
        problem = f"has {len(found)} dist-info directories" if found else "has no dist-info"
        raise refusal(filename, [("", f"{problem}: {', '.join(found)}" if found else problem)])
    stem = found[0].removesuffix(".dist-info")
    head, _, tail = stem.partition("-")
    try:
        same = canonicalize_name(head) == name and Version(tail) == version
    except InvalidVersion:
        same = False
    if not same:
        raise refusal(filename, [(found[0], "is not what the file name says")])
    for top in sorted(tops):
        if top.endswith(".data") and top != stem + ".data" and "-" in top:
            raise refusal(filename, [(top, f"is a data directory beside {stem}.data")])
    return found[0]

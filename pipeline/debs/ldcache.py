"""/etc/ld.so.cache as ldconfig would write it for the libraries of the packages.

Without a cache `ldconfig -p` fails, and with it Triton; with an empty one Python's
ctypes.util.find_library does not find what is there. Format: glibc, sysdeps/generic/dl-cache.h,
"struct cache_file_new" (the only one that glibc 2.36 writes).
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from pipeline.debs.unpack import merged

_MAGIC = b"glibc-ld.so.cache1.1"
_LITTLE_ENDIAN = 2
_HEADER = struct.Struct("<20sIIB3xI12x")
_ENTRY = struct.Struct("<iIIIQ")
_MAX_LINKS = 40  # as Linux: more is a loop
_NAME = re.compile(r"(lib[^/]*|ld-[^/]*)\.so(\.[^/]*)?$")


@dataclass(frozen=True)
class Abi:
    """What the loader of one architecture asks for: Debian's triplet, ELF machine, cache flags."""

    triplet: str
    machine: str
    flags: int


ABIS = {
    # FLAG_ELF_LIBC6 with FLAG_AARCH64_LIB64 and FLAG_X8664_LIB64 (sysdeps/generic/ldconfig.h)
    "arm64": Abi("aarch64-linux-gnu", "EM_AARCH64", 0x0A03),
    "amd64": Abi("x86_64-linux-gnu", "EM_X86_64", 0x0303),
}


def is_library(path: str, abi: Abi) -> bool:
    """Whether ldconfig would look at the file at this merged path."""
    directory, _, base = path.rpartition("/")
    return directory in (f"usr/lib/{abi.triplet}", "usr/lib") and _NAME.match(base) is not None


def cache(files: Mapping[str, bytes], links: Mapping[str, str], abi: Abi) -> bytes:
    """Return the cache for libraries given by contents and links by target (merged paths)."""
    found: dict[str, str] = {}
    for name, path in _libraries(files, links, abi):
        found.setdefault(name, path)
    names = sorted(found, key=_order, reverse=True)
    strings = bytearray()
    start = _HEADER.size + _ENTRY.size * len(names)
    entries = bytearray()
    for name in names:
        key = start + len(strings)
        strings += name.encode("utf-8") + b"\0"
        value = start + len(strings)
        strings += found[name].encode("utf-8") + b"\0"
        entries += _ENTRY.pack(abi.flags, key, value, 0, 0)
    header = _HEADER.pack(_MAGIC, len(names), len(strings), _LITTLE_ENDIAN, 0)
    return header + bytes(entries) + bytes(strings)


def _libraries(
    files: Mapping[str, bytes], links: Mapping[str, str], abi: Abi
) -> Iterator[tuple[str, str]]:
    """Yield (name, absolute path) of what the loader may be asked for.

    Paths are spelled /lib/…, because ld.so.conf names that directory first.
    """
    shared = {}
    for path in sorted(files):
        soname = _soname(files[path], abi)
        if soname is not None:
            shared[path] = soname
    for directory in (f"usr/lib/{abi.triplet}", "usr/lib"):
        shown = "/" + directory.removeprefix("usr/")
        for path, soname in shared.items():
            parent, _, base = path.rpartition("/")
            if parent == directory:
                yield soname or base, f"{shown}/{soname or base}"
        for path in sorted(links):
            parent, _, base = path.rpartition("/")
            soname = shared.get(_target(path, links), "")
            # Links with a part of the version (libbz2.so.1 for libbz2.so.1.0) are left out.
            if parent == directory and (base == soname or (soname and base.endswith(".so"))):
                yield base, f"{shown}/{base}"


def _target(path: str, links: Mapping[str, str]) -> str:
    """Return the file that a link leads to, through other links."""
    for _ in range(_MAX_LINKS):
        if path not in links:
            break
        target = posixpath.join("/", posixpath.dirname(path), links[path])
        path = merged(posixpath.normpath(target).lstrip("/"))
    return path


def _soname(data: bytes, abi: Abi) -> str | None:
    """Return the SONAME of a shared object ("" without one), None for what is none of `abi`."""
    if not data.startswith(b"\x7fELF"):
        return None
    try:
        elf = ELFFile(io.BytesIO(data))
        dynamic = elf.get_section_by_name(".dynamic")
        if elf["e_machine"] != abi.machine or not isinstance(dynamic, DynamicSection):
            return None
        sonames = [tag.soname for tag in dynamic.iter_tags("DT_SONAME")]  # type: ignore[attr-defined]
        return str(sonames[0]) if sonames else ""
    except ELFError:
        return None


def _order(name: str) -> list[tuple[int, int]]:
    """Order names as the loader's binary search expects them (glibc, _dl_cache_libcmp)."""
    # Numbers compare as numbers and come after any other character.
    return [
        (1, int(piece)) if piece.isdigit() else (0, ord(piece))
        for piece in re.findall(r"[0-9]+|[^0-9]", name)
    ]

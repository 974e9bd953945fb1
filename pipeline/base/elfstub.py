"""A shared object that a linker accepts for `-lcuda`, written byte by byte.

The CUDA toolkit has lib64/stubs/libcuda.so, because the real libcuda.so.1 comes with the driver at
run time; no wheel brings the stub. The linker takes its SONAME for the NEEDED entry of what it
makes, but under --as-needed (the default of Debian's compilers) only if the stub defines a symbol
that is used: so the stub has every function of the driver API. Each returns 34,
CUDA_ERROR_STUB_LIBRARY, as the toolkit's does.

Layout: System V ABI, chapters 4 and 5 (ELF64, little endian); AArch64 for the two instructions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYM = struct.Struct("<IBBHQQ")
_DYN = struct.Struct("<qQ")

_EM_AARCH64, _ET_DYN, _PAGE = 183, 3, 0x10000
_PT_LOAD, _PT_DYNAMIC = 1, 2
_PF_X, _PF_R = 1, 4
_SHT_PROGBITS, _SHT_STRTAB, _SHT_HASH, _SHT_DYNAMIC, _SHT_DYNSYM = 1, 3, 5, 6, 11
_SHF_ALLOC, _SHF_EXECINSTR = 2, 4
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_SYMENT, _DT_SONAME = 4, 5, 6, 10, 11, 14
_GLOBAL_FUNCTION = 0x12  # STB_GLOBAL, STT_FUNC
_CODE = struct.pack("<II", 0x52800440, 0xD65F03C0)  # mov w0, #34; ret
_SECTIONS = (".text", ".hash", ".dynsym", ".dynstr", ".dynamic", ".shstrtab")
_TEXT, _DYNSYM, _DYNSTR, _SHSTRTAB = 1, 3, 4, 6


def shared_object(soname: str, functions: Iterable[str]) -> bytes:
    """Return an AArch64 shared object with this SONAME that defines these functions.

    Equal arguments (in any order) give equal bytes. Names are ASCII.
    """
    names = sorted(set(functions))
    strings = _Strings()
    soname_at = strings.add(soname)
    text_at = _EHDR.size + 2 * _PHDR.size
    symbols = bytes(_SYM.size) + b"".join(
        _SYM.pack(strings.add(name), _GLOBAL_FUNCTION, 0, _TEXT, text_at, len(_CODE))
        for name in names
    )
    # One bucket; the chain goes from the last symbol down to 0. The linker does not search it.
    count = len(names) + 1
    table = struct.pack(f"<III{count}I", 1, count, count - 1, 0, *range(count - 1))
    parts = [_CODE, _padded(table), symbols, _padded(strings.data)]
    starts = [text_at]
    for part in parts:
        starts.append(starts[-1] + len(part))
    _, hash_at, symbols_at, strings_at, dynamic_at = starts
    entries = (
        (_DT_SONAME, soname_at),
        (_DT_HASH, hash_at),
        (_DT_STRTAB, strings_at),
        (_DT_SYMTAB, symbols_at),
        (_DT_STRSZ, len(strings.data)),
        (_DT_SYMENT, _SYM.size),
        (0, 0),
    )
    dynamic = b"".join(_DYN.pack(*entry) for entry in entries)
    names_at = dynamic_at + len(dynamic)
    section_names = _Strings()
    layout = (  # type, flags, address and offset, size, link, info, entry size
        (_SHT_PROGBITS, _SHF_ALLOC | _SHF_EXECINSTR, text_at, len(_CODE), 0, 0, 0),
        (_SHT_HASH, _SHF_ALLOC, hash_at, len(table), _DYNSYM, 0, 4),
        (_SHT_DYNSYM, _SHF_ALLOC, symbols_at, len(symbols), _DYNSTR, 1, _SYM.size),
        (_SHT_STRTAB, _SHF_ALLOC, strings_at, len(strings.data), 0, 0, 0),
        (_SHT_DYNAMIC, _SHF_ALLOC, dynamic_at, len(dynamic), _DYNSTR, 0, _DYN.size),
    )
    sections = bytes(_SHDR.size)
    for name, (kind, flags, at, size, link, info, unit) in zip(_SECTIONS, layout, strict=False):
        sections += _SHDR.pack(
            section_names.add(name), kind, flags, at, at, size, link, info, 8, unit
        )
    last = section_names.add(_SECTIONS[-1])
    size = len(section_names.data)
    sections += _SHDR.pack(last, _SHT_STRTAB, 0, 0, names_at, size, 0, 0, 1, 0)
    tail = _padded(section_names.data)
    header = _EHDR.pack(
        b"\x7fELF\x02\x01\x01".ljust(16, b"\0"),
        *(_ET_DYN, _EM_AARCH64, 1, 0, _EHDR.size, names_at + len(tail), 0),
        *(_EHDR.size, _PHDR.size, 2, _SHDR.size, len(_SECTIONS) + 1, _SHSTRTAB),
    )
    load = _PHDR.pack(_PT_LOAD, _PF_R | _PF_X, 0, 0, 0, names_at, names_at, _PAGE)
    where = _PHDR.pack(_PT_DYNAMIC, _PF_R, *(dynamic_at,) * 3, *(len(dynamic),) * 2, 8)
    return b"".join([header, load, where, *parts, dynamic, tail, sections])


class _Strings:
    """A string table: names one after the other, each ended by a zero byte."""

    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, name: str) -> int:
        at = len(self.data)
        self.data += name.encode("ascii") + b"\0"
        return at


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)

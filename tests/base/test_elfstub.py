"""The stub of libcuda, read back by another ELF reader."""

from __future__ import annotations

import ctypes
import io
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from pipeline.base.elfstub import shared_object

NAMES = ["cuInit", "cuMemAlloc_v2", "cuTensorMapEncodeTiled"]
LINKER = shutil.which("aarch64-linux-gnu-ld") or (
    shutil.which("ld") if platform.machine() == "aarch64" else None
)


def read(data: bytes) -> Any:
    return ELFFile(io.BytesIO(data))


def test_it_is_a_shared_object_with_a_soname() -> None:
    elf = read(shared_object("libcuda.so.1", NAMES))
    assert (elf["e_machine"], elf["e_type"], elf.elfclass) == ("EM_AARCH64", "ET_DYN", 64)
    assert elf.little_endian
    (soname,) = elf.get_section_by_name(".dynamic").iter_tags("DT_SONAME")
    assert soname.soname == "libcuda.so.1"


def test_functions_are_defined_in_its_code() -> None:
    elf = read(shared_object("libcuda.so.1", NAMES))
    table = elf.get_section_by_name(".dynsym")
    symbols = {symbol.name: symbol for symbol in table.iter_symbols() if symbol.name}
    assert sorted(symbols) == NAMES
    text = elf.get_section_by_name(".text")
    for symbol in symbols.values():
        assert symbol["st_info"] == {"bind": "STB_GLOBAL", "type": "STT_FUNC"}
        assert elf.get_section(symbol["st_shndx"]).name == ".text"
        assert symbol["st_value"] == text["sh_addr"]
    hashed = elf.get_section_by_name(".hash")
    assert hashed.get_symbol("cuInit").name == "cuInit"
    assert hashed.get_symbol("cuGone") is None


def test_the_segments_agree_with_the_sections() -> None:
    data = shared_object("libcuda.so.1", NAMES)
    elf = read(data)
    load, dynamic = elf.iter_segments()
    assert (load["p_type"], load["p_flags"]) == ("PT_LOAD", 5)
    section = elf.get_section_by_name(".dynamic")
    assert dynamic["p_offset"] == section["sh_offset"]
    assert load["p_filesz"] == section["sh_offset"] + section["sh_size"]
    assert len(data) == elf["e_shoff"] + elf["e_shnum"] * elf["e_shentsize"]


def test_no_functions_are_fine() -> None:
    assert read(shared_object("libx.so", [])).get_section_by_name(".dynsym").num_symbols() == 1


def test_order_and_repetition_play_no_part() -> None:
    assert shared_object("l", NAMES) == shared_object("l", [*reversed(NAMES), "cuInit"])


@pytest.mark.skipif(LINKER is None, reason="no linker for AArch64 here")
def test_a_linker_takes_it(tmp_path: Path) -> None:
    (tmp_path / "libcuda.so").write_bytes(shared_object("libcuda.so.1", NAMES))
    out = tmp_path / "user.so"
    command = [str(LINKER), "-shared", "-o", str(out), "--undefined=cuInit", "-L", str(tmp_path)]
    subprocess.run([*command, "--no-as-needed", "-lcuda"], check=True)
    tags = read(out.read_bytes()).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
    assert [tag.needed for tag in tags] == ["libcuda.so.1"]


@pytest.mark.skipif(platform.machine() != "aarch64", reason="this machine is no AArch64")
def test_its_functions_return_stub_library(tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so"
    path.write_bytes(shared_object("libcuda.so.1", NAMES))
    assert ctypes.CDLL(str(path)).cuInit(0) == 34

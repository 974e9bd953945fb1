"""Large binaries that pass by: what is held of them says the same as the whole file."""

from __future__ import annotations

import io
import struct

import pytest

from pipeline.oci import passing
from pipeline.oci.elf import Elf, read_elf
from pipeline.oci.passing import NotHeld, Passing

HEAD, TAIL = 8192, 1024


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passing, "_HEAD", HEAD)
    monkeypatch.setattr(passing, "_TAIL", TAIL)
    monkeypatch.setattr(passing, "_HEADERS", 2048)


def binary(size: int, dynamic: int, names: int) -> bytes:
    """A shared object of `size` bytes, its dynamic segment and its names at these offsets."""
    strings = b"\0liba.so.1\0libb.so\0"
    tags = struct.pack("<qQqQqQqQ", 14, 1, 1, 11, 5, names, 0, 0)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    segment = struct.pack("<IIQQQQQQ", 2, 4, dynamic, dynamic, 0, len(tags), len(tags), 8)
    data = bytearray(header + load + segment).ljust(size, b"\1")
    data[dynamic : dynamic + len(tags)] = tags
    data[names : names + len(strings)] = strings
    return bytes(data)


def passed(data: bytes, step: int) -> Passing:
    held = Passing(len(data))
    for at in range(0, len(data), step):
        held.add(memoryview(data)[at : at + step])
    return held


@pytest.mark.parametrize("step", [512, 1000, 4096, 100_000])
@pytest.mark.parametrize(
    ("size", "dynamic", "names"),
    [
        (20_000, 500, 300),
        (20_000, 9000, 300),  # as linkers write it: names before the code, tags after it
        (20_000, 9000, 19_500),
        (20_000, 19_700, 19_500),
        (3000, 1000, 2000),
        (HEAD + TAIL, HEAD - 10, HEAD + 100),
    ],
)
def test_what_is_held_is_enough(size: int, dynamic: int, names: int, step: int) -> None:
    data = binary(size, dynamic, names)
    assert read_elf(io.BytesIO(data)) == Elf("liba.so.1", ("libb.so",))
    assert passed(data, step).elf() == Elf("liba.so.1", ("libb.so",))


@pytest.mark.parametrize("step", [512, 100_000])
def test_names_in_the_middle_are_not_held(step: int) -> None:
    with pytest.raises(NotHeld):
        passed(binary(20_000, 300, 12_000), step).elf()


def test_what_no_loader_loads() -> None:
    for data in (b"\x7fELF" + bytes(9000), b"\x7fELF", binary(300, 180, 250)[:100]):
        assert passed(data, 512).elf() is None

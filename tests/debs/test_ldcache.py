"""The loader's cache: what it lists, and in which order."""

from __future__ import annotations

import struct

import pytest

from pipeline.base.elfstub import shared_object
from pipeline.debs.ldcache import ABIS, cache, is_library

ARM = ABIS["arm64"]
DIRECTORY = "usr/lib/aarch64-linux-gnu"


def listed(data: bytes) -> list[tuple[str, str]]:
    """Return (name, path) as ldconfig -p would print them."""
    magic, count, strings, endian, extension = struct.unpack_from("<20sIIB3xI12x", data)
    assert (magic, endian, extension) == (b"glibc-ld.so.cache1.1", 2, 0)
    assert len(data) == 48 + 24 * count + strings
    found = []
    for number in range(count):
        flags, key, value, _, hwcap = struct.unpack_from("<iIIIQ", data, 48 + 24 * number)
        assert (flags, hwcap) == (ARM.flags, 0)
        name, path = (data[at : data.index(b"\0", at)].decode() for at in (key, value))
        found.append((name, path))
    return found


def library(soname: str) -> bytes:
    return shared_object(soname, [])


def test_an_empty_cache_is_a_header() -> None:
    assert len(cache({}, {}, ARM)) == 48


def test_names_come_from_sonames_and_development_links() -> None:
    files = {f"{DIRECTORY}/libz.so.1.2.13": library("libz.so.1")}
    links = {
        f"{DIRECTORY}/libz.so.1": "libz.so.1.2.13",
        f"{DIRECTORY}/libz.so": "/lib/aarch64-linux-gnu/libz.so.1",
        f"{DIRECTORY}/libz.so.1.2": "libz.so.1.2.13",
        f"{DIRECTORY}/libdangling.so": "libgone.so.3",
    }
    assert listed(cache(files, links, ARM)) == [
        ("libz.so.1", "/lib/aarch64-linux-gnu/libz.so.1"),
        ("libz.so", "/lib/aarch64-linux-gnu/libz.so"),
    ]


def test_numbers_sort_as_numbers_and_backwards() -> None:
    names = ["liba.so.9", "liba.so.10", "libB.so.1", "liba.so", "liba-2.so"]
    files = {f"usr/lib/{name}": library(name) for name in names}
    found = [name for name, _ in listed(cache(files, {}, ARM))]
    assert found == ["liba.so.10", "liba.so.9", "liba.so", "liba-2.so", "libB.so.1"]


def test_what_is_no_library_of_the_machine_is_left_out() -> None:
    good = library("libx.so.1")
    other = good[:18] + struct.pack("<H", 62) + good[20:]
    files = {
        "usr/lib/liba.so": b"/* GNU ld script */",
        "usr/lib/libb.so": other,
        "usr/lib/libc.so": b"\x7fELF torn",
        "usr/lib/libd.so": good[:40],
    }
    assert listed(cache(files, {}, ARM)) == []


def test_a_loop_of_links_ends() -> None:
    links = {"usr/lib/liba.so": "libb.so", "usr/lib/libb.so": "liba.so"}
    assert listed(cache({}, links, ARM)) == []


@pytest.mark.parametrize(
    ("path", "yes"),
    [
        (f"{DIRECTORY}/libc.so.6", True),
        (f"{DIRECTORY}/ld-linux-aarch64.so.1", True),
        ("usr/lib/libx.so", True),
        (f"{DIRECTORY}/gconv/libx.so", False),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", False),
        (f"{DIRECTORY}/libc.a", False),
        ("usr/bin/libx.so", False),
    ],
)
def test_is_library(path: str, yes: bool) -> None:
    assert is_library(path, ARM) is yes

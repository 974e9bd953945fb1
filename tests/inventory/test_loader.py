"""The loader's view: which copy of a library is taken, by which rule."""

from __future__ import annotations

import io
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from pipeline.inventory.facts import read_binaries
from pipeline.inventory.loader import Loader, read_cache
from pipeline.oci.elf import Elf, read_elf
from pipeline.oci.view import LayersView
from tests.audit.images import Content, Link, image

SITE = "usr/local/lib/python3.12/dist-packages"
AARCH64, X86_64 = 183, 62


def elf(
    soname: str = "",
    needed: tuple[str, ...] = (),
    rpath: str = "",
    runpath: str = "",
    *,
    machine: int = AARCH64,
    salt: str = "",
) -> bytes:
    """Return a shared object of nothing but a dynamic segment."""
    strings = b"\0"
    tags: list[tuple[int, int]] = []
    for tag, text in [(14, soname), *((1, one) for one in needed), (15, rpath), (29, runpath)]:
        if text:
            tags.append((tag, len(strings)))
            strings += text.encode() + b"\0"
    table = 64 + 2 * 56 + 16 * (len(tags) + 2)
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (5, table), (0, 0)])
    size = table + len(strings)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, size, size, 4096)
    place = 64 + 2 * 56
    segment = struct.pack("<IIQQQQQQ", 2, 4, place, place, place, len(dynamic), len(dynamic), 8)
    return header + load + segment + dynamic + strings + salt.encode()


def opened(
    directory: Path, files: Mapping[str, Content], env: Mapping[str, str] | None = None
) -> LayersView:
    """Return an image of one layer."""
    view = image(directory, files)
    texts = [f"{key}={value}" for key, value in (env or {}).items()]
    return replace(view, config={**view.config, "config": {"Env": texts}})


def loader(view: LayersView) -> Loader:
    return Loader(view, read_binaries(view, None))


def test_what_is_read_is_what_pyelftools_reads() -> None:
    data = elf("liba.so.1", ("libb.so", "libc.so.6"), runpath="$ORIGIN/../lib")
    found = read_elf(io.BytesIO(data))
    assert found == Elf("liba.so.1", ("libb.so", "libc.so.6"), "", "$ORIGIN/../lib")
    paths = [path for path in Path("/usr/lib").glob("*-linux-gnu/lib*.so*") if path.is_file()][:40]
    for path in paths:
        with path.open("rb") as file:
            mine = read_elf(file)
            if mine is None:
                continue
            segment = next(ELFFile(file).iter_segments("PT_DYNAMIC"))
            tags = list(segment.iter_tags())
        needed = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
        sonames = [tag.soname for tag in tags if tag.entry.d_tag == "DT_SONAME"]
        assert (list(mine.needed), [mine.soname]) == (needed, sonames or [""])


@given(st.binary(max_size=300), st.integers(0, 500), st.integers(0, 255))
def test_damaged_binaries_are_none_or_something_never_an_error(
    noise: bytes, at: int, byte: int
) -> None:
    whole = bytearray(elf("liba.so.1", ("libb.so",), "/x", "/y"))
    whole[at % len(whole)] = byte
    for data in (b"\x7fELF" + noise, b"\x7fELF\x02\x01\x01" + bytes(9) + noise, bytes(whole)):
        read_elf(io.BytesIO(data))
        read_elf(io.BytesIO(data[: at % (len(data) + 1)]))


NCCL, OTHER = f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "opt/nccl/libnccl.so.2"
SYSTEM = "usr/lib/aarch64-linux-gnu/libnccl.so.2"
TORCH = f"{SITE}/torch/lib/libtorch.so"
RPATH = "$ORIGIN/../../nvidia/nccl/lib"


@pytest.mark.parametrize(
    ("rpath", "runpath", "env", "path", "route"),
    [
        (RPATH, "", {}, NCCL, "RPATH"),
        ("", RPATH, {}, NCCL, "RUNPATH"),
        ("", "${ORIGIN}/../../nvidia/nccl/lib", {}, NCCL, "RUNPATH"),
        (RPATH, "", {"LD_LIBRARY_PATH": "/opt/nccl"}, NCCL, "RPATH"),
        ("", RPATH, {"LD_LIBRARY_PATH": "/opt/nccl"}, OTHER, "LD_LIBRARY_PATH"),
        ("/opt/nccl", RPATH, {}, NCCL, "RUNPATH"),  # beside a RUNPATH an RPATH is nothing
        ("/nowhere", "", {}, SYSTEM, "the system"),
        ("", "", {"LD_LIBRARY_PATH": ":/nowhere:/opt/nccl"}, OTHER, "LD_LIBRARY_PATH"),
    ],
)
def test_the_order_of_the_loader(
    tmp_path: Path, rpath: str, runpath: str, env: dict[str, str], path: str, route: str
) -> None:
    files: dict[str, Content] = {
        place: elf("libnccl.so.2", salt=place) for place in (NCCL, OTHER, SYSTEM)
    }
    files[TORCH] = elf("libtorch.so", ("libnccl.so.2",), rpath, runpath)
    view = opened(tmp_path, files, env)
    taken = loader(view).take("libnccl.so.2", TORCH)
    assert taken is not None and taken == (path, route)


def test_a_copy_for_another_machine_is_passed_over(tmp_path: Path) -> None:
    files: dict[str, Content] = {
        OTHER: elf("libnccl.so.2", machine=X86_64),
        SYSTEM: elf("libnccl.so.2"),
        TORCH: elf("libtorch.so", ("libnccl.so.2",), runpath="/opt/nccl"),
    }
    taken = loader(opened(tmp_path, files)).take("libnccl.so.2", TORCH)
    assert taken is not None and taken.path == SYSTEM


def cache_of(name: str, path: str) -> bytes:
    """Return a cache of one entry."""
    start = 48 + 24
    strings = name.encode() + b"\0" + path.encode() + b"\0"
    header = struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", 1, len(strings), 2, 0)
    return header + struct.pack("<iIIIQ", 0x0A03, start, start + len(name) + 1, 0, 0) + strings


def test_links_are_followed_and_the_cache_is_asked(tmp_path: Path) -> None:
    library = elf("libx.so.1")
    real = "usr/lib/aarch64-linux-gnu/libx.so.1.0"
    files: dict[str, Content] = {
        real: library,
        "usr/lib/aarch64-linux-gnu/libx.so.1": Link("libx.so.1.0"),
        "lib": Link("usr/lib"),
        "etc/ld.so.cache": cache_of("libx.so.1", "/lib/aarch64-linux-gnu/libx.so.1"),
        "opt/other/libx.so.1": elf("libx.so.1", salt="2"),
        "etc/ld.so.conf": "# comment\ninclude /etc/ld.so.conf.d/*.conf\n",
        "etc/ld.so.conf.d/a.conf": "/opt/other\ninclude /etc/ld.so.conf\n",  # a loop
        "opt/only/liby.so.1": elf("liby.so.1"),
        "etc/ld.so.conf.d/b.conf": "/opt/only # here\n",
    }
    view = loader(opened(tmp_path, files))
    assert view.bare("libx.so.1") == (real, "ld.so.cache")
    assert view.bare("liby.so.1") == ("opt/only/liby.so.1", "ld.so.conf")
    assert view.bare("libz.so.1") is None


@given(st.binary(max_size=200), st.binary(max_size=100))
def test_a_damaged_cache_is_read_without_an_error(noise: bytes, tail: bytes) -> None:
    list(read_cache(noise))
    list(read_cache(b"glibc-ld.so.cache1.1" + noise))
    list(read_cache(b"glibc-ld.so.cache1.1" + struct.pack("<IIB3xI12x", 9, 9, 2, 0) + noise + tail))


def test_the_machines_own_cache_is_read_as_ldconfig_prints_it() -> None:
    path = Path("/etc/ld.so.cache")
    try:
        printed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True)
        found = list(read_cache(path.read_bytes()))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no ldconfig, or no cache here")
    shown = [line.strip().split(" ")[0] for line in printed.stdout.splitlines()[1:] if "=>" in line]
    assert [name for name, _ in found] == shown

"""A million entries: the right answer, or one clear error, in 512 MiB whatever the file is."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from hypothesis import settings

from pipeline.oci import tarstream
from pipeline.wheels.directory import MAX_DIRECTORY
from tests.hostile import seeds

ROOT = Path(__file__).parents[2]
MANY = 1_000_000
LIMIT = 512 * 1024  # KiB
slow = pytest.mark.skipif(settings().max_examples < 1000, reason="slow: runs with `nox -s fuzz`")


def ask(code: str, *arguments: object) -> str:
    """Run a program of ours in a process of its own, and hold it to the limit; what it prints."""
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from pipeline.errors import Refusal\n"
        f"{code}\n"
        # Not ru_maxrss: that counts what the tests' own process had when this one was forked.
        "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *lines, peak = done.stdout.splitlines()
    assert int(peak) < LIMIT
    return "\n".join(lines)


def crowded_wheel(path: Path, count: int) -> Path:
    """A wheel with so many empty files, all of which share one local header (APPNOTE 4.3)."""
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, 6, 0) + b"000000"
    central = struct.Struct("<4s6H3L5H2L")
    directory = b"".join(
        central.pack(b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0) + b"%06x" % number
        for number in range(count)
    )
    at, size = len(local), len(directory)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, at)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at + size, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, size, at, 0)
    path.write_bytes(local + directory + end64 + locator + end)
    return path


INSTALL = """
from pipeline.oci.layer import LayerWriter
from pipeline.wheels.install import install_wheel
from pipeline.wheels.target import Target
path = Path(sys.argv[1])
try:
    with LayerWriter(path.with_name("layer"), epoch=0, level=1) as writer:
        install_wheel(path, path.name, writer, Target())
except Refusal as error:
    print(error)
"""
PATCH = """
from pipeline.patching.sources import open_wheel
try:
    open_wheel(Path(sys.argv[1]), "3.12")
except Refusal as error:
    print(error)
"""
RESOLVE = """
from types import SimpleNamespace
from pipeline.lock.metadata import Metadata
from pipeline.pins import LockedWheel
path = Path(sys.argv[1])
house = SimpleNamespace(has=lambda *asked: True, path=lambda sha256: path)
wheel = LockedWheel("demo", "1.0", path.name, path.stat().st_size, "0" * 64)
try:
    Metadata(house).see([wheel])
except Refusal as error:
    print(error)
"""


@pytest.mark.parametrize("code", [INSTALL, PATCH, RESOLVE], ids=["install", "patch", "resolve"])
def test_a_wheel_of_a_million_entries_is_refused_by_its_directory(
    tmp_path: Path, code: str
) -> None:
    path = crowded_wheel(tmp_path / "demo-1.0-py3-none-any.whl", MANY)
    said = ask(code, path)
    assert said.startswith("demo-1.0-py3-none-any.whl: its directory has 52,000,000 bytes")
    assert sorted(one.name for one in tmp_path.iterdir()) == [path.name]


@slow
@pytest.mark.parametrize("code", [INSTALL, PATCH, RESOLVE], ids=["install", "patch", "resolve"])
def test_the_most_entries_that_are_read_at_all(tmp_path: Path, code: str) -> None:
    path = crowded_wheel(tmp_path / "demo-1.0-py3-none-any.whl", MAX_DIRECTORY // 52)
    said = ask(code, path)
    assert "its directory has" not in said


@slow
def test_a_layer_of_a_million_entries_is_indexed(tmp_path: Path) -> None:
    blob = tmp_path / "layer"
    with blob.open("wb") as out, zstandard.ZstdCompressor(level=1).stream_writer(out) as packed:
        for number in range(tarstream.MAX_ENTRIES):
            packed.write(seeds.header(b"d/%07d" % number))
        packed.write(seeds.END)
    code = (
        "from pipeline.oci.content import index_blob\n"
        "print(len(index_blob(Path(sys.argv[1])).entries))"
    )
    assert ask(code, blob) == str(tarstream.MAX_ENTRIES)

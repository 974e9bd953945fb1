"""Every seed is refused, by name and reason, and nothing is written outside."""

from __future__ import annotations

import base64
import gzip
import hashlib
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from pipeline.audit.requirements import parse_requirement
from pipeline.audit.run import audit
from pipeline.debs.archive import Deb
from pipeline.debs.unpack import Unpacker
from pipeline.documents import Malformed, parse_toml
from pipeline.errors import FaultyFile, Refusal
from pipeline.inventory.metadata import Unreadable, parse_direct_url, parse_metadata, parse_record
from pipeline.oci.archive import open_archive
from pipeline.oci.content import index_blob
from pipeline.oci.layer import LayerWriter
from pipeline.patching.loading import load_patches
from pipeline.pins import load_lock
from pipeline.stage_files import load_chain
from pipeline.wheels.install import install_wheel
from pipeline.wheels.target import Target
from tests.audit.images import SITE, distribution, expect, image
from tests.hostile import seeds

MEMORY = 64 * 1024 * 1024  # bytes: no reader of any seed needs more


def bounded(call: Callable[[], object]) -> None:
    """Run a call and hold it to the memory that a small input may take."""
    tracemalloc.start()
    try:
        call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MEMORY


def refused(call: Callable[[], object], match: str = "") -> None:
    def ask() -> None:
        with pytest.raises(Refusal, match=match):
            call()

    bounded(ask)


def alone(directory: Path, data: bytes, name: str = "input") -> Path:
    """Write an input into a directory that holds nothing else."""
    path = directory / "only" / name
    path.parent.mkdir()
    path.write_bytes(data)
    return path


def nothing_else(directory: Path, *names: str) -> None:
    found = sorted(p.relative_to(directory).as_posix() for p in directory.rglob("*") if p.is_file())
    assert found == sorted(names)


@pytest.mark.parametrize("fault", sorted(seeds.TARS))
def test_tars(tmp_path: Path, fault: str) -> None:
    data, match = seeds.TARS[fault]
    blob = alone(tmp_path, data)
    refused(lambda: index_blob(blob), match)
    nothing_else(tmp_path, "only/input")


@pytest.mark.parametrize("fault", sorted(set(seeds.TARS) - {"empty"}))
def test_tars_as_archives(tmp_path: Path, fault: str) -> None:
    """What only misleads inside a layer has no manifest.json, and is no archive at all."""

    def ask() -> None:
        with pytest.raises(Exception) as caught:
            open_archive(alone(tmp_path, seeds.TARS[fault][0]))
        assert type(caught.value).__name__ in ("Refusal", "UsageError")

    bounded(ask)


@pytest.mark.parametrize("fault", sorted(seeds.ZSTD))
def test_zstd(tmp_path: Path, fault: str) -> None:
    blob = alone(tmp_path, seeds.ZSTD[fault])
    refused(lambda: index_blob(blob), "not a readable layer")


@pytest.mark.parametrize("fault", sorted(seeds.GZIP))
def test_gzip(tmp_path: Path, fault: str) -> None:
    blob = alone(tmp_path, seeds.GZIP[fault])
    refused(lambda: index_blob(blob), "not a readable layer")


@pytest.mark.parametrize("fault", sorted(seeds.WHEELS))
def test_wheels(tmp_path: Path, fault: str) -> None:
    path = alone(tmp_path, seeds.WHEELS[fault])

    def install() -> None:
        with LayerWriter(tmp_path / "layer", epoch=0, level=1) as writer:
            install_wheel(path, "demo-1.0-py3-none-any.whl", writer, Target())

    refused(install, "demo-1.0-py3-none-any.whl")
    nothing_else(tmp_path, "only/input")  # not even half a layer


@pytest.mark.parametrize("fault", sorted(seeds.DEBS))
def test_debs(tmp_path: Path, fault: str) -> None:
    path = alone(tmp_path, seeds.DEBS[fault])

    def unpack() -> None:
        with LayerWriter(tmp_path / "layer", epoch=0, level=1) as writer:
            Unpacker(writer, lambda path: False).add("demo", Deb(path))

    said = {
        "format of tomorrow": "b'9.0",
        "format without a version": "not 2.0",
        "takes more than it says": "far above what it says",
        "takes more than anything": "more than 268435456 bytes",
        "goes on after its end": "goes on and on after its end",
    }
    refused(unpack, said.get(fault, ""))
    nothing_else(tmp_path, "only/input")


def test_the_sound_ones_are_taken(tmp_path: Path) -> None:
    assert len(index_blob(alone(tmp_path, seeds.SOUND_TAR)).entries) == 6
    names: list[str] = []
    path = alone(tmp_path / "only", seeds.SOUND_DEB)
    Deb(path).walk(lambda member, stream: names.append(member.name))
    assert len(names) == 6


BOMB = bytes(96 * 1024 * 1024)


def test_a_wheel_that_is_a_bomb_takes_flat_memory(tmp_path: Path) -> None:
    record = f"zeros,sha256={_base64(BOMB)},{len(BOMB)}\n".encode()
    for file in ("METADATA", "WHEEL"):
        data = seeds.META if file == "METADATA" else seeds.WHEEL
        record += f"{seeds.INFO}/{file},sha256={_base64(data)},{len(data)}\n".encode()
    record += f"{seeds.INFO}/RECORD,,\n".encode()
    path = alone(tmp_path, seeds.wheel(("zeros", BOMB), record=record))
    assert path.stat().st_size < 1024 * 1024

    def install() -> None:
        with LayerWriter(tmp_path / "layer", epoch=0, level=1) as writer:
            install_wheel(path, "demo-1.0-py3-none-any.whl", writer, Target())
            assert writer.get("usr/local/lib/python3.11/dist-packages/zeros")
            writer.close()

    bounded(install)


def test_metadata_that_is_a_bomb_is_refused_unread(tmp_path: Path) -> None:
    path = alone(tmp_path, seeds.wheel(record=BOMB))

    def install() -> None:
        with LayerWriter(tmp_path / "layer", epoch=0, level=1) as writer:
            install_wheel(path, "demo-1.0-py3-none-any.whl", writer, Target())

    refused(install, "larger than any such file")


@pytest.mark.parametrize("end", ["", ".gz", ".xz", ".zst"])
def test_a_deb_that_is_a_bomb_takes_flat_memory(tmp_path: Path, end: str) -> None:
    pack: Callable[[bytes], bytes] = {
        "": bytes,
        ".gz": gzip.compress,
        ".xz": lambda data: lzma.compress(data, preset=0),
        ".zst": zstandard.ZstdCompressor().compress,
    }[end]
    path = alone(tmp_path, seeds.deb(pack(seeds.entry(BOMB, name=b"./zeros") + seeds.END), end))

    def unpack() -> None:
        with LayerWriter(tmp_path / "layer", epoch=0, level=1) as writer:
            Unpacker(writer, lambda name: False).add("demo", Deb(path))
            writer.close()

    bounded(unpack)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


@pytest.mark.parametrize("fault", sorted(seeds.RECORDS))
def test_records(fault: str) -> None:
    with pytest.raises(Unreadable):
        parse_record(seeds.RECORDS[fault])


@pytest.mark.parametrize("fault", sorted(seeds.METADATA))
def test_metadata(fault: str) -> None:
    with pytest.raises(Unreadable):
        parse_metadata(seeds.METADATA[fault])


@pytest.mark.parametrize("fault", sorted(seeds.DIRECT_URLS))
def test_direct_urls(fault: str) -> None:
    with pytest.raises(Unreadable):
        parse_direct_url(seeds.DIRECT_URLS[fault])


@pytest.mark.parametrize("number", range(len(seeds.REQUIREMENTS)))
def test_requirements(tmp_path: Path, number: int) -> None:
    text = seeds.REQUIREMENTS[number]
    parse_requirement(text)
    metadata = f"Name: a\nVersion: 1\nRequires-Dist: {text}\n".encode("utf-8", "replace").decode()
    a = distribution("a", "1", metadata=metadata)
    report = audit(image(tmp_path, a), expect())
    assert {one.rule for one in report.findings} <= {
        "requirement-unreadable",
        "requirement-unsatisfied",
    }


@pytest.mark.parametrize("fault", sorted(seeds.TOML))
def test_toml(tmp_path: Path, fault: str) -> None:
    data = seeds.TOML[fault]
    with pytest.raises(Malformed):
        parse_toml(data)
    path = alone(tmp_path, data, "v01-x.toml")
    for load in (load_chain, load_patches):
        with pytest.raises(FaultyFile):
            load(path.parent)
    with pytest.raises(FaultyFile):
        load_lock(path)


def test_a_document_that_is_deep_and_right_is_refused_for_what_it_is(tmp_path: Path) -> None:
    path = alone(tmp_path, b"a" + b".a" * 20_000 + b" = 1\n", "v01-x.toml")
    for load in (load_chain, load_patches):
        with pytest.raises(FaultyFile):
            load(path.parent)
    with pytest.raises(FaultyFile):
        load_lock(path)


def test_metadata_of_any_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.inventory.distributions._MAX_FILE", 100)
    report = audit(
        image(tmp_path, distribution("a", "1", {"a.py": "x"}, record="x" * 200)), expect()
    )
    assert [(one.rule, one.path) for one in report.findings] == [
        ("broken-record", f"{SITE}/a-1.dist-info/RECORD"),
    ]

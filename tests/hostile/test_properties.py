"""Properties of every reader: for any bytes there is a result or one refusal, never a traceback.

`nox -s fuzz` runs the same with many more examples.
"""

from __future__ import annotations

import io
import random
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.audit.requirements import meets, parse_requirement
from pipeline.debs.archive import Deb
from pipeline.debs.unpack import Unpacker
from pipeline.documents import Malformed, parse_json, parse_toml
from pipeline.errors import Refusal, UsageError
from pipeline.inventory.imports import dotted_imports, import_line
from pipeline.inventory.metadata import Unreadable, parse_direct_url, parse_metadata, parse_record
from pipeline.oci import tarstream
from pipeline.oci.archive import open_archive
from pipeline.oci.content import index_blob
from pipeline.oci.files import read_files
from pipeline.oci.frames import find_frames
from pipeline.oci.layer import LayerWriter
from pipeline.oci.tarstream import TarFault, read_tar
from pipeline.patching.loading import load_patches
from pipeline.pins import load_lock
from pipeline.stage_files import load_chain
from pipeline.wheels.install import install_wheel
from pipeline.wheels.target import Target
from tests.hostile import seeds
from tests.oci.archives import config_of, docker_25
from tests.oci.makelayer import file as tar_file
from tests.oci.makelayer import tar as make_tar

ROOT = Path(__file__).parents[2]
NAME = "demo-1.0-py3-none-any.whl"
SOUND_WHEEL = seeds.wheel(record=b"demo-1.0.dist-info/RECORD,,\n")
_LAYERS = [make_tar([tar_file("a", "x" * 2000)])]
SOUND_ARCHIVE = make_tar(docker_25(config_of(_LAYERS), _LAYERS))


def changed(*sound: bytes) -> st.SearchStrategy[bytes]:
    """Inputs with a few bytes changed, cut out, put in twice, or cut off."""

    def change(data: bytes, seed: int, count: int) -> bytes:
        chance, result = random.Random(seed), bytearray(data)
        for _ in range(count):
            at, length = chance.randrange(len(result) + 1), chance.choice((1, 1, 2, 8, 512))
            kind = chance.randrange(6)
            if kind == 0:
                del result[at : at + length]
            elif kind == 1:
                result[at:at] = result[at : at + length]
            elif kind == 2:
                del result[at:]
            else:
                result[at : at + 1] = bytes(
                    [chance.choice((0, 0x2F, 0x2E, 0x80, 0xFF, 0x39, at & 255))]
                )
        return bytes(result)

    return st.builds(
        change,
        st.sampled_from(sound),
        st.integers(0, 2**32),
        st.integers(1, 6),
    )


def in_file(data: bytes, use: Callable[[Path], object], name: str = "input") -> None:
    """Call with a file of its own in a directory where nothing else may appear."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "only", name)
        path.parent.mkdir()
        path.write_bytes(data)
        use(path)
        outside = [p for p in Path(directory).rglob("*") if p.is_file() and p.parent != path.parent]
        assert not outside


TARS = [seeds.SOUND_TAR, *(data for data, _ in seeds.TARS.values())]


@given(changed(*TARS) | st.binary(max_size=2000))
def test_layers(data: bytes) -> None:
    def use(path: Path) -> None:
        try:
            index = index_blob(path)
        except Refusal:
            return
        paths = [entry.path for entry in index.entries if entry.has_content]
        assert not any(path.startswith("/") or ".." in path.split("/") for path in paths)
        # The last of a name that is there twice counts; a link may lead to nothing here.
        last = {entry.path: entry for entry in index.entries if entry.has_content}
        whole = [path for path, entry in last.items() if entry.sha256]
        try:
            contents = read_files(path, index, whole)
        except (Refusal, KeyError):
            return
        assert all(len(contents[name]) == last[name].size for name in whole)

    in_file(data, use)


PACKED = [zstandard.ZstdCompressor().compress(seeds.SOUND_TAR), *seeds.ZSTD.values()]


@given(changed(*PACKED, *seeds.GZIP.values()))
def test_compressed_layers(data: bytes) -> None:
    def use(path: Path) -> None:
        try:
            index_blob(path)
        except Refusal:
            return

    in_file(data, use)


@given(st.lists(st.binary(max_size=3000), min_size=1, max_size=4), st.data())
def test_frames_are_found_by_their_headers(pieces: list[bytes], data: st.DataObject) -> None:
    frames = [zstandard.ZstdCompressor(write_checksum=True).compress(piece) for piece in pieces]
    whole = b"".join(frames)

    def use(path: Path) -> None:
        found = find_frames(path)
        sizes = [len(piece) for piece in pieces]
        regular = sizes[0] and set(sizes[:-1]) <= {sizes[0]} and sizes[-1] <= sizes[0]
        if regular and sizes[-1]:
            assert found is not None and found.compressed == tuple(map(len, frames))
            assert found.size == sizes[0]
        cut = data.draw(st.integers(1, len(whole)))
        if len(whole) - cut not in {sum(map(len, frames[:n])) for n in range(len(frames) + 1)}:
            path.write_bytes(whole[:-cut])
            with pytest.raises(ValueError, match="zstd"):
                find_frames(path)

    in_file(whole, use)


NAMES = st.text(
    st.characters(exclude_characters="\0/", exclude_categories=["Cs"]), min_size=1, max_size=90
)


@st.composite
def archives(draw: st.DrawFn) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Entries that `tarfile` can write in every format."""
    result = []
    for _ in range(draw(st.integers(0, 4))):
        info = tarfile.TarInfo("/".join(draw(st.lists(NAMES, min_size=1, max_size=4))))
        info.type = draw(st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE]))
        info.mode = draw(st.integers(0, 0o7777))
        info.mtime = draw(st.integers(0, 2**40))
        data = b""
        if info.type == tarfile.REGTYPE:
            data = draw(st.binary(max_size=1500))
            info.size = len(data)
        elif info.type == tarfile.SYMTYPE:
            info.linkname = draw(NAMES)
        result.append((info, data))
    return result


@given(archives(), st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_what_tarfile_writes_is_read_as_it_is(
    entries: list[tuple[tarfile.TarInfo, bytes]], form: int
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    whole = buffer.getvalue()
    for stream in (io.BytesIO(whole), io.BufferedReader(_Unseekable(whole))):
        found = [
            (member.name.rstrip("/"), member.type, member.mode, member.mtime, member.link,
             data.read() if data else b"", member.offset)
            for member, data in read_tar(stream)
        ]  # fmt: skip
        with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
            offsets = [info.offset_data for info in archive]
        assert found == [
            (info.name.rstrip("/"), info.type, info.mode, info.mtime, info.linkname, data, offset)
            for (info, data), offset in zip(entries, offsets, strict=True)
        ]


class _Unseekable(io.RawIOBase):
    """Gives little at a time, and cannot go back."""

    def __init__(self, data: bytes):
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(min(len(buffer), 700))
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.skipif(settings().max_examples < 1000, reason="slow: runs with `nox -s fuzz`")
def test_a_million_entries_take_bounded_memory(tmp_path: Path) -> None:
    blob = tmp_path / "layer"
    with blob.open("wb") as out, zstandard.ZstdCompressor(level=1).stream_writer(out) as packed:
        for number in range(tarstream.MAX_ENTRIES):
            packed.write(seeds.header(b"d/%07d" % number))
        packed.write(seeds.END)
    code = (
        "import resource, sys; from pathlib import Path; "
        "from pipeline.oci.content import index_blob; "
        "assert len(index_blob(Path(sys.argv[1])).entries) == 10**6; "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(blob)], cwd=ROOT, check=True, capture_output=True
    )
    assert int(done.stdout) < 512 * 1024  # KiB


BOMB = 2 * 1024**3  # bytes of zeros


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_bombs_take_flat_memory(tmp_path: Path, kind: str) -> None:
    size = BOMB if settings().max_examples >= 1000 else BOMB // 16
    blob = tmp_path / "layer"
    chunk = bytes(1024 * 1024)
    with blob.open("wb") as out:
        packer = (
            zstandard.ZstdCompressor(level=1).compressobj()
            if kind == "zstd"
            else (zlib.compressobj(1, wbits=31))
        )
        out.write(packer.compress(seeds.header(b"zeros", size)))
        for _ in range(size // len(chunk)):
            out.write(packer.compress(chunk))
        out.write(packer.compress(seeds.END) + packer.flush())
    assert blob.stat().st_size < size / 200
    tracemalloc.start()
    index = index_blob(blob)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert index.entries[0].size == size
    assert peak < 40 * 1024 * 1024  # two rings of buffers, 16 MiB each


def test_a_million_and_one_entries_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tarstream, "MAX_ENTRIES", 10)
    ten = b"".join(seeds.entry(b"", name=b"%d" % number) for number in range(10))
    assert len(list(read_tar(io.BytesIO(ten + seeds.END)))) == 10
    with pytest.raises(TarFault, match="more than 10 entries"):
        list(read_tar(io.BytesIO(ten + seeds.entry(b"") + seeds.END)))


@given(changed(SOUND_ARCHIVE))
def test_archives(data: bytes) -> None:
    def use(path: Path) -> None:
        try:
            open_archive(path).tree  # noqa: B018
        except (Refusal, UsageError):
            return

    in_file(data, use)


@given(changed(SOUND_WHEEL, *seeds.WHEELS.values()))
def test_wheels(data: bytes) -> None:
    def use(path: Path) -> None:
        layer = path.with_name("layer")
        try:
            with LayerWriter(layer, epoch=0, level=1) as writer:
                install_wheel(path, NAME, writer, Target())
                writer.close()
        except Refusal:
            assert not layer.exists()
            return
        names = [entry.path for entry in index_blob(layer).entries]
        assert all(name.startswith("usr") for name in names)

    in_file(data, use)


@given(changed(seeds.SOUND_DEB, *seeds.DEBS.values()))
def test_debs(data: bytes) -> None:
    def use(path: Path) -> None:
        try:
            Deb(path).control()
            with LayerWriter(path.with_name("layer"), epoch=0, level=1) as writer:
                Unpacker(writer, lambda name: False).add("demo", Deb(path))
        except Refusal:
            return

    in_file(data, use)


PARSERS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "RECORD": (parse_record, [b"a.py,sha256=AAAA,1\n", *seeds.RECORDS.values()]),
    "METADATA": (parse_metadata, [seeds.META, *seeds.METADATA.values()]),
    "direct_url": (
        parse_direct_url,
        [b'{"url": "https://u:p@h/x", "archive_info": {}}', *seeds.DIRECT_URLS.values()],
    ),
}


@pytest.mark.parametrize("name", sorted(PARSERS))
@given(st.data())
def test_metadata_files(name: str, data: st.DataObject) -> None:
    parse, sound = PARSERS[name]
    text = data.draw(changed(*[one for one in sound if one]) | st.binary(max_size=200))
    try:
        result = parse(text)
    except Unreadable:
        return
    assert str(result)


@given(
    st.text(max_size=60) | changed(b'a[b] >= 1; extra == "c"').map(lambda d: d.decode("latin-1"))
)
def test_requirements(text: str) -> None:
    found = parse_requirement(text)
    if found is not None:
        meets(found, "1.0")
        meets(found, "no version")


@given(st.binary(max_size=300) | changed(b"import a.b, c.d as e\nfrom x.y import (z)\n"))
def test_sources(data: bytes) -> None:
    for module in dotted_imports(data):
        import_line(data, module)


@given(changed(*seeds.TOML.values()) | st.binary(max_size=200))
def test_toml_and_json(data: bytes) -> None:
    for parse in (parse_toml, parse_json):
        try:
            parse(data)
        except Malformed:
            pass


# --- our own files: structure that is changed, so that it is still TOML --------------------------

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [0, -1, 1234, 10**30, 1.5, True, "", "x", "../..", "/", "\x07", "a" * 300, [], [[]], {}, [{}],
     {"a": {}}, ["x"], [1], "v1", "vllm==0.30.*", "==", "sha256:0", "0644"]
)  # fmt: skip


def _mutate(document: Any, chance: random.Random, odd: Callable[[], Any]) -> Any:
    """Change one value, or drop or add one key, somewhere in a document."""
    if isinstance(document, dict) and document and chance.random() < 0.9:
        key = chance.choice(sorted(document))
        if chance.random() < 0.15:
            return {k: v for k, v in document.items() if k != key}
        if chance.random() < 0.1:
            return {**document, "odd": odd()}
        return {**document, key: _mutate(document[key], chance, odd)}
    if isinstance(document, list) and document and chance.random() < 0.9:
        at = chance.randrange(len(document))
        return [*document[:at], _mutate(document[at], chance, odd), *document[at + 1 :]]
    return odd()


def _toml(value: Any, path: str = "") -> str:
    """Write a document as TOML: nested values inline."""
    if isinstance(value, dict) and not path:
        return "".join(f"{_key(key)} = {_toml(inner, key)}\n" for key, inner in value.items())
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(k)} = {_toml(v, k)}" for k, v in value.items())
        return "{" + inner + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one, "-") for one in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = "".join(
            char if char.isprintable() and char not in '"\\' else f"\\U{ord(char):08X}"
            for char in value
        )
        return f'"{escaped}"'
    return str(value)


def _key(key: str) -> str:
    return _toml(key, "-")


STAGE = tomllib.loads((ROOT / "stages" / "v05-cutlass-dsl.toml").read_text(encoding="utf-8")) | {
    "parent": "base",
    "environment": "v5",
    "files": [{"source": "v05-x.toml", "destination": "/opt/x", "mode": "0644"}],
    "env": {"A": "b"},
    "labels": {"c": "d"},
}
PATCH = tomllib.loads((ROOT / "patches" / "pdl-gate.toml").read_text(encoding="utf-8"))
LOCK = tomllib.loads(
    (ROOT / "tests" / "fixtures" / "locks" / "sound.toml").read_text(encoding="utf-8")
)
OURS: dict[str, tuple[Any, str, Callable[[Path], object]]] = {
    "stage": (STAGE, "v05-x.toml", lambda path: load_chain(path.parent)),
    "patch": (PATCH, f"{PATCH['name']}.toml", lambda path: load_patches(path.parent)),
    "lock": (LOCK, "pins.toml", lambda path: load_lock(path).select("wheels")),
}


@pytest.mark.parametrize("kind", sorted(OURS))
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_files_of_ours(kind: str, data: st.DataObject) -> None:
    document, name, load = OURS[kind]
    chance = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 3))):
        document = _mutate(document, chance, lambda: data.draw(ODD))
    text = _toml(document if isinstance(document, dict) else {"odd": document})

    def use(path: Path) -> None:
        try:
            load(path)
        except UsageError as error:
            assert str(error)

    in_file(text.encode(), use, name)

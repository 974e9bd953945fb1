"""The layer writer: what it writes, and what it refuses."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from pipeline.errors import Refusal, UsageError
from pipeline.oci.content import index_blob
from pipeline.oci.files import read_files
from pipeline.oci.index import Entry, LayerIndex
from pipeline.oci.layer import FRAME_SIZE, LayerWriter, check_zstd

GOLDEN_DIFF_ID = "sha256:b00ae4c7a75084f8fd392340934e7f37e3e8cf977e12f1b08fc250d6ada371ad"


def write(path: Path, fill: Callable[[LayerWriter], None], *, threads: int = 1) -> LayerIndex:
    with LayerWriter(path, epoch=1767225600, level=3, threads=threads) as writer:
        fill(writer)
        return writer.close()


def unpacked(path: Path) -> bytes:
    with path.open("rb") as file:
        reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return reader.read()


def sample(writer: LayerWriter) -> None:
    writer.add_directory("etc", 0o700)
    writer.add_file("etc/ä", b"hello", 5)
    writer.add_file("usr/bin/tool", io.BytesIO(b"#!"), 2, 0o755)
    writer.add_symlink("usr/sh", "bin/tool")
    writer.add_hardlink("usr/bin/link", "usr/bin/tool")
    writer.add_whiteout("usr/lib/old")
    writer.add_opaque("usr/share")


def test_golden_layer(tmp_path: Path) -> None:
    index = write(tmp_path / "blob", sample)
    assert index.diff_id == GOLDEN_DIFF_ID


def test_members_as_tar_shows_them(tmp_path: Path) -> None:
    write(tmp_path / "blob", sample)
    with tarfile.open(fileobj=io.BytesIO(unpacked(tmp_path / "blob"))) as tar:
        members = tar.getmembers()
    assert [(m.name, m.type, oct(m.mode), m.linkname) for m in members] == [
        ("etc", tarfile.DIRTYPE, "0o700", ""),
        ("etc/ä", tarfile.REGTYPE, "0o644", ""),
        ("usr", tarfile.DIRTYPE, "0o755", ""),
        ("usr/bin", tarfile.DIRTYPE, "0o755", ""),
        ("usr/bin/tool", tarfile.REGTYPE, "0o755", ""),
        ("usr/sh", tarfile.SYMTYPE, "0o777", "bin/tool"),
        ("usr/bin/link", tarfile.LNKTYPE, "0o755", "usr/bin/tool"),
        ("usr/lib", tarfile.DIRTYPE, "0o755", ""),
        ("usr/lib/.wh.old", tarfile.REGTYPE, "0o644", ""),
        ("usr/share", tarfile.DIRTYPE, "0o755", ""),
        ("usr/share/.wh..wh..opq", tarfile.REGTYPE, "0o644", ""),
    ]
    assert {(m.uid, m.gid, m.mtime) for m in members} == {(0, 0, 1767225600)}


def test_the_index_is_what_is_read_back(tmp_path: Path) -> None:
    index = write(tmp_path / "blob", sample)
    assert LayerIndex.from_bytes(index.to_bytes()) == index
    read = index_blob(tmp_path / "blob")
    assert (read.digest, read.diff_id, read.size) == (index.digest, index.diff_id, index.size)

    def comparable(entries: tuple[Entry, ...]) -> list[Entry]:
        return [entry._replace(offset=-1) for entry in entries]

    assert comparable(read.entries) == comparable(index.entries)


@pytest.mark.parametrize("size", [0, 1, FRAME_SIZE - 512, FRAME_SIZE - 511, 3 * FRAME_SIZE + 7])
def test_threads_and_kinds_of_input_have_no_influence(tmp_path: Path, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    indexes = [
        write(tmp_path / "a", lambda w: w.add_file("x", data, size) and None, threads=1),
        write(
            tmp_path / "b", lambda w: w.add_file("x", io.BytesIO(data), size) and None, threads=4
        ),
    ]
    assert indexes[0] == indexes[1]
    assert indexes[0].entries[0].sha256 == hashlib.sha256(data).hexdigest()
    plain = unpacked(tmp_path / "a")
    assert len(indexes[0].frames) == -(-len(plain) // FRAME_SIZE)
    assert sum(indexes[0].frames) == indexes[0].size == (tmp_path / "a").stat().st_size
    assert "sha256:" + hashlib.sha256(plain).hexdigest() == indexes[0].diff_id
    assert read_files(tmp_path / "a", indexes[0], ["x"]) == {"x": data}


@pytest.mark.parametrize(
    "path",
    ["", "/a", "../a", "a/../b", "a/./b", "./a", ".", "..", "a//b", "a/", "a\0b", "\udcff", "a/.."],
)
def test_paths_that_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Refusal, match="not a path"):
        write(tmp_path / "blob", lambda w: w.add_directory(path))
    assert not (tmp_path / "blob").exists()


@pytest.mark.parametrize("path", ["...", "a/..b", "..a", ".a", "a./b", "pynvvideocodec./x"])
def test_dots_that_are_names(tmp_path: Path, path: str) -> None:
    index = write(tmp_path / "blob", lambda w: w.add_file(path, b"", 0) and None)
    assert index.entries[-1].path == path


@pytest.mark.parametrize("data", [b"1", b"123"])
@pytest.mark.parametrize("wrap", [bytes, io.BytesIO])
def test_sizes_that_lie(tmp_path: Path, data: bytes, wrap: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Refusal, match=r"^a: "):
        write(tmp_path / "blob", lambda w: w.add_file("a", wrap(data), 2) and None)


def _twice(writer: LayerWriter) -> None:
    writer.add_file("a", b"", 0)
    writer.add_file("a", b"", 0)


def _file_and_whiteout(writer: LayerWriter) -> None:
    writer.add_file("a/b", b"", 0)
    writer.add_whiteout("a/b")


def _below_a_file(writer: LayerWriter) -> None:
    writer.add_file("a", b"", 0)
    writer.add_file("a/b", b"", 0)


def _below_a_whiteout(writer: LayerWriter) -> None:
    writer.add_whiteout("a")
    writer.add_file("a/b", b"", 0)


def _directory_with_another_mode(writer: LayerWriter) -> None:
    writer.add_directory("a", 0o755)
    writer.add_directory("a", 0o700)


def _opaque_twice(writer: LayerWriter) -> None:
    writer.add_opaque("a")
    writer.add_opaque("a")


@pytest.mark.parametrize(
    "fill",
    [
        _twice,
        _file_and_whiteout,
        _below_a_file,
        _below_a_whiteout,
        _directory_with_another_mode,
        _opaque_twice,
        lambda w: w.add_hardlink("a", "not/there"),
        lambda w: w.add_file("a/.wh.b", b"", 0),
        lambda w: w.add_directory(".wh..wh..opq"),
        lambda w: w.add_file("a/.wh.b/c", b"", 0),
    ],
)
def test_layers_that_cannot_be(tmp_path: Path, fill: Callable[[LayerWriter], None]) -> None:
    with pytest.raises(Refusal):
        write(tmp_path / "blob", fill)
    assert not (tmp_path / "blob").exists()


def test_a_hard_link_has_what_its_file_has(tmp_path: Path) -> None:
    index = write(tmp_path / "blob", sample)
    found = {entry.path: entry for entry in index.entries}
    link, file = found["usr/bin/link"], found["usr/bin/tool"]
    assert (link.size, link.sha256, link.offset) == (file.size, file.sha256, file.offset)
    assert read_files(tmp_path / "blob", index, ["usr/bin/link"]) == {"usr/bin/link": b"#!"}


def test_parents_get_the_mode_that_lower_layers_gave_them(tmp_path: Path) -> None:
    with LayerWriter(
        tmp_path / "blob", epoch=0, level=3, directory_mode={"tmp": 0o1777}.__getitem__
    ) as writer:
        writer.add_file("tmp/x", b"", 0)
        index = writer.close()
    assert (index.entries[0].path, index.entries[0].mode) == ("tmp", 0o1777)


def test_a_blob_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        LayerWriter(tmp_path / "blob", epoch=0, level=3)
    assert (tmp_path / "blob").read_bytes() == b"mine"


def test_an_interrupted_layer_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        LayerWriter(tmp_path / "blob", epoch=0, level=3) as writer,
    ):
        writer.add_file("a", bytes(5 * FRAME_SIZE), 5 * FRAME_SIZE)
        raise KeyboardInterrupt
    assert not (tmp_path / "blob").exists()


@pytest.mark.skipif(shutil.which("tar") is None, reason="tar is not installed")
def test_another_tar_reads_the_same_names(tmp_path: Path) -> None:
    names = [
        "a",
        "p" * 155 + "/" + "a" * 100,
        "x" * 150 + "/y",
        "ü",
        "n" * 255,
        "d./e",
        "q/" * 90 + "z",
    ]

    def fill(writer: LayerWriter) -> None:
        for name in names:
            writer.add_file(name, name.encode(), len(name.encode()))
        writer.add_symlink("link", "t" * 300)

    index = write(tmp_path / "blob", fill)
    command = ["tar", "--quoting-style=literal", "-tf", "-"]
    done = subprocess.run(
        command, input=unpacked(tmp_path / "blob"), capture_output=True, check=True
    )
    listed = [line.rstrip("/") for line in done.stdout.decode().splitlines()]
    assert listed == [entry.path for entry in index.entries]


def test_what_a_writer_holds_so_far(tmp_path: Path) -> None:
    with LayerWriter(tmp_path / "blob", epoch=5, level=1) as writer:
        writer.add_file("a/b", b"x", 1)
        writer.add_opaque("c")
        assert "a/b" in writer and "a" in writer and "b" not in writer
        found = writer.get("a/b")
        assert found is not None and (found.path, found.size, found.mtime) == ("a/b", 1, 5)
        assert writer.get("b") is None
        writer.add_directory("c")  # beside the marker that hides what is below it
        writer.add_directory("d")
        assert writer.get("d") == Entry("d", "dir", 0o755)
        writer.close()


@pytest.mark.parametrize("kind", ["file", "mode"])
def test_a_directory_again_is_refused_where_it_is_not_the_same(tmp_path: Path, kind: str) -> None:
    with LayerWriter(tmp_path / "blob", epoch=0, level=1) as writer:
        if kind == "file":
            writer.add_file("a", b"", 0, 0o755)
        else:
            writer.add_directory("a", 0o700)
        with pytest.raises(Refusal, match="twice"):
            writer.add_directory("a", 0o755)


def test_a_frame_that_is_full_is_closed(tmp_path: Path) -> None:
    """A tar of exactly two frames makes two, and no empty third one."""
    size = 2 * FRAME_SIZE - 512 - 1024  # its header before it, the end of the archive after it
    index = write(
        tmp_path / "blob", lambda writer: writer.add_file("a", bytes(size), size) and None
    )
    assert len(index.frames) == 2
    assert index == index_blob(tmp_path / "blob")


@pytest.mark.parametrize("cuts", [(1, 3), (31, 33), (64, 64), (100, 1000)])
def test_the_start_of_a_file_is_kept_however_it_comes(
    tmp_path: Path, cuts: tuple[int, int]
) -> None:
    data = b"\x7fELF" + bytes(range(200)) + bytes(2000)

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 0, cuts[0] if not self.tell() else cuts[1]))

    for number, given in enumerate((data, Slow(data))):
        blob = tmp_path / f"blob{number}"
        index = write(
            blob, lambda writer, given=given: writer.add_file("a", given, len(data)) and None
        )
        assert index.entries == index_blob(blob).entries and index.entries[0].start


def test_an_index_of_another_format(tmp_path: Path) -> None:
    index = write(tmp_path / "blob", sample)
    data = index.to_bytes()
    assert LayerIndex.from_bytes(data) == index
    number = json.loads(data)["format"]
    with pytest.raises(ValueError, match="layer index has format"):
        LayerIndex.from_bytes(data.replace(b'"format":%d' % number, b'"format":%d' % (number + 1)))


def test_another_libzstd_than_the_lock_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstandard, "ZSTD_VERSION", (1, 5, 7))
    check_zstd("1.5.7")
    with pytest.raises(UsageError, match=r"wants libzstd 1\.5\.8.* brings 1\.5\.7"):
        check_zstd("1.5.8")


def test_too_little_memory_to_compress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Poor:
        def __init__(self, level: int) -> None: ...

        def compress(self, piece: bytes) -> bytes:
            raise zstandard.ZstdError("cannot compress: Allocation error : not enough memory")

    monkeypatch.setattr(zstandard, "ZstdCompressor", Poor)
    with pytest.raises(MemoryError, match="not enough memory"):
        write(tmp_path / "blob", sample)
    assert not (tmp_path / "blob").exists()


def test_the_tar_is_hashed_in_its_order_however_slow_that_is(tmp_path: Path) -> None:
    class Slow:
        def __init__(self) -> None:
            self.inner, self.calls = hashlib.sha256(), 0

        def update(self, piece: bytes) -> None:
            self.calls += 1
            if self.calls == 1:
                time.sleep(0.1)  # the next piece is there long before
            self.inner.update(piece)

        def hexdigest(self) -> str:
            return self.inner.hexdigest()

    def fill(writer: LayerWriter) -> None:
        writer._diff = Slow()  # type: ignore[assignment]
        writer.add_file("a", bytes(FRAME_SIZE) + b"x" * FRAME_SIZE, 2 * FRAME_SIZE)

    index = write(tmp_path / "blob", fill)
    plain = unpacked(tmp_path / "blob")
    assert index.diff_id == "sha256:" + hashlib.sha256(plain).hexdigest()


def test_a_blob_that_somebody_removed_hides_no_error(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        LayerWriter(tmp_path / "blob", epoch=0, level=1),
    ):
        (tmp_path / "blob").unlink()
        raise KeyboardInterrupt


def test_files_that_are_given_as_a_whole_are_told(tmp_path: Path) -> None:
    told: list[tuple[str, bytes]] = []
    with LayerWriter(
        tmp_path / "blob", epoch=0, level=1, seen=lambda path, data: told.append((path, data))
    ) as writer:
        writer.add_file("a", b"whole", 5)
        writer.add_file("b", io.BytesIO(b"stream"), 6)
        writer.close()
    assert told == [("a", b"whole")]


def test_a_path_of_very_many_directories(tmp_path: Path) -> None:
    path = "d/" * 600 + "f"
    index = write(tmp_path / "blob", lambda writer: writer.add_file(path, b"x", 1) and None)
    assert len(index.entries) == 601 and index.entries[-1].path == path
    assert index.entries == index_blob(tmp_path / "blob").entries


@pytest.mark.parametrize("column", ["paths", "sizes", "sha256", "offsets", "types", "modes"])
def test_an_index_of_columns_that_differ_in_length(tmp_path: Path, column: str) -> None:
    document = json.loads(write(tmp_path / "blob", sample).to_bytes())
    document[column].pop()
    with pytest.raises((ValueError, IndexError)):
        LayerIndex.from_bytes(json.dumps(document).encode())

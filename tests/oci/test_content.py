"""Reading layers of any maker: indexing, and fetching single files."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from pipeline.errors import Refusal
from pipeline.oci.content import _covers, index_blob, media_type_of
from pipeline.oci.files import frame_reader, read_files
from pipeline.oci.frames import Frames
from pipeline.oci.index import Entry
from pipeline.oci.layer import FRAME_SIZE, LayerWriter
from tests.oci.makelayer import Item, file, folder, hardlink, opaque, symlink, tar, whiteout

SAMPLE = [
    folder("./etc/", 0o700),
    file("./etc/passwd", "root"),
    symlink("etc/link", "../x"),
    hardlink("etc/hard", "./etc/passwd"),
    whiteout("usr/old"),
    opaque("usr/share"),
    file("a" * 200 + "/ü", "long"),
    Item("dev/null", tarfile.CHRTYPE, mode=0o666),
]
PACK: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar+gzip": lambda data: gzip.compress(data, mtime=0),
    "tar+gzip twice": lambda data: (
        gzip.compress(data[:1000], mtime=0) + gzip.compress(data[1000:], mtime=0)
    ),
    "tar+zstd": zstandard.ZstdCompressor().compress,
    "tar+zstd twice": lambda data: (
        zstandard.ZstdCompressor().compress(data[:1000])
        + zstandard.ZstdCompressor().compress(data[1000:])
    ),
}


def blob_of(directory: Path, data: bytes) -> Path:
    path = directory / "blob"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("pack", sorted(PACK))
def test_blobs_of_any_maker(tmp_path: Path, pack: str, form: int) -> None:
    plain = tar(SAMPLE, form)
    packed = PACK[pack](plain)
    blob = blob_of(tmp_path, packed)
    index = index_blob(blob)
    assert index.digest == "sha256:" + hashlib.sha256(packed).hexdigest()
    assert index.diff_id == "sha256:" + hashlib.sha256(plain).hexdigest()
    # One frame that declares its size is random access too; two of other sizes are not.
    assert (index.size, index.frames) == (len(packed), (len(packed),) if pack == "tar+zstd" else ())
    assert index.media_type == media_type_of(blob)
    assert index.media_type.endswith(pack.split()[0])
    root, long = hashlib.sha256(b"root").hexdigest(), hashlib.sha256(b"long").hexdigest()
    assert tuple(entry._replace(offset=-1) for entry in index.entries) == (
        Entry("etc", "dir", 0o700),
        Entry("etc/passwd", "file", 0o644, 4, root),
        Entry("etc/link", "symlink", 0o777, link="../x"),
        Entry("etc/hard", "hardlink", 0o644, 4, root, "etc/passwd"),
        Entry("usr/old", "whiteout", 0o644),
        Entry("usr/share", "opaque", 0o644),
        Entry("a" * 200 + "/ü", "file", 0o644, 4, long),
        Entry("dev/null", "char", 0o666),
    )
    names = ["etc/hard", "etc/passwd", "a" * 200 + "/ü"]
    assert read_files(blob, index, names) == dict(
        zip(names, (b"root", b"root", b"long"), strict=True)
    )


def test_bytes_after_the_end_of_the_tar_belong_to_the_digests(tmp_path: Path) -> None:
    plain = tar([file("a")]) + bytes(30000) + b"more"
    index = index_blob(blob_of(tmp_path, plain))
    assert index.diff_id == index.digest == "sha256:" + hashlib.sha256(plain).hexdigest()


@pytest.mark.parametrize("name", ["../x", "a/../../x", "a/.."])
def test_names_that_climb(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refusal, match="climbs"):
        index_blob(blob_of(tmp_path, tar([file(name)])))


def test_links_that_climb(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="climbs"):
        index_blob(blob_of(tmp_path, tar([hardlink("a", "../../etc/passwd")])))
    index = index_blob(blob_of(tmp_path, tar([symlink("a", "../../etc/passwd")])))
    assert index.entries[0].link == "../../etc/passwd"  # text, which is never followed out


@pytest.mark.parametrize("pack", sorted(PACK))
def test_truncated_blobs(tmp_path: Path, pack: str) -> None:
    content = random.Random(0).randbytes(100_000)
    packed = PACK[pack](tar([file("a", content), file("b", content)]))
    for cut in (10, 700, 1100, len(packed) // 2, len(packed) - 11_000):
        with pytest.raises(Refusal):
            index_blob(blob_of(tmp_path, packed[:cut]))


@pytest.mark.parametrize(
    "data", [b"", b"x", b"no layer at all" * 100, b"\x1f\x8b", b"\x28\xb5\x2f\xfd"]
)
def test_what_is_no_layer(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(Refusal):
        index_blob(blob_of(tmp_path, data))


def test_an_unknown_type(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="unknown type"):
        index_blob(blob_of(tmp_path, tar([Item("a", b"Z")])))


def test_only_files_are_read(tmp_path: Path) -> None:
    blob = blob_of(tmp_path, tar(SAMPLE))
    index = index_blob(blob)
    for path in ("etc", "etc/link", "none", "usr/old", "dev/null"):
        with pytest.raises(KeyError):
            read_files(blob, index, [path])
    assert read_files(blob, index, []) == {}


def test_the_last_of_two_entries_counts(tmp_path: Path) -> None:
    blob = blob_of(tmp_path, tar([file("a", "1"), file("b"), file("a", "2")]))
    assert read_files(blob, index_blob(blob), ["a"]) == {"a": b"2"}


def test_content_that_is_not_as_indexed(tmp_path: Path) -> None:
    blob = blob_of(tmp_path, tar([file("a", "1")]))
    index = index_blob(blob)
    blob.write_bytes(tar([file("a", "2")]))
    with pytest.raises(Refusal, match="not what its index says"):
        read_files(blob, index, ["a"])


def test_random_access_across_frames(tmp_path: Path) -> None:
    source = random.Random(1)
    contents = {
        "a": source.randbytes(FRAME_SIZE - 1536),  # ends the first frame with its padding
        "b": source.randbytes(2 * FRAME_SIZE + 5),
        "c": b"",
        "d": source.randbytes(700),
    }
    blob = tmp_path / "blob"
    with LayerWriter(blob, epoch=0, level=1) as writer:
        for path, data in contents.items():
            writer.add_file(path, data, len(data))
        writer.add_hardlink("e", "d")
        index = writer.close()
    contents["e"] = contents["d"]
    assert read_files(blob, index, sorted(contents)) == contents
    for path, data in contents.items():
        assert read_files(blob, index, [path]) == {path: data}
    damaged = bytearray(blob.read_bytes())
    damaged[index.frames[0] + 1000] ^= 0xFF
    blob.write_bytes(damaged)
    assert read_files(blob, index, ["a"]) == {"a": contents["a"]}
    with pytest.raises(Refusal):
        read_files(blob, index, ["b"])
    blob.write_bytes(damaged[: index.frames[0] + 5])
    with pytest.raises(Refusal):
        read_files(blob, index, ["d"])


@pytest.mark.parametrize("name", [".wh.", "a/.wh..", "a/.wh..."])
def test_whiteouts_of_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(Refusal, match="removes nothing that has a name"):
        index_blob(blob_of(tmp_path, tar([file(name)])))


def test_entries_without_content_hold_nothing_of_it(tmp_path: Path) -> None:
    items = [file("empty"), Item("fifo", tarfile.FIFOTYPE, target="no link"), file("a", "x")]
    index = index_blob(blob_of(tmp_path, tar(items)))
    assert [(entry.offset, entry.link) for entry in index.entries] == [
        (-1, ""),
        (-1, ""),
        (2560 - 512 - 512, ""),
    ]
    assert read_files(tmp_path / "blob", index, ["empty", "a"]) == {"empty": b"", "a": b"x"}


def frames_of(plain: bytes, size: int, declared: int = 0) -> bytes:
    """A blob of frames of `size` bytes of content; with `declared` the first one's header lies."""
    packer = zstandard.ZstdCompressor()
    frames = [packer.compress(plain[at : at + size]) for at in range(0, len(plain), size)]
    if declared:
        assert frames[0][4] >> 6 == 1  # two bytes of size, less 256 (RFC 8878, 3.1.1.1.4)
        frames[0] = frames[0][:5] + (declared - 256).to_bytes(2, "little") + frames[0][7:]
    return b"".join(frames)


@pytest.mark.parametrize(
    ("frames", "sizes", "size", "fits"),
    [
        (2, 100, 101, True),
        (2, 100, 200, True),
        (2, 100, 100, False),  # the second frame is empty
        (2, 100, 201, False),
        (1, 100, 1, True),
        (1, 100, 0, False),
        (3, 100, 150, False),
    ],
)
def test_frames_that_cover_a_tar(frames: int, sizes: int, size: int, fits: bool) -> None:
    assert _covers(Frames(sizes, (9,) * frames), size) is fits


def test_a_frame_that_does_not_hold_what_it_declares(tmp_path: Path) -> None:
    plain = tar([file("a", "x" * 3000)])
    blob = blob_of(tmp_path, frames_of(plain, 1024))
    index = index_blob(blob)
    assert index.frame_size == 1024 and len(index.frames) == len(plain) // 1024
    for declared, said in ((1100, "declares another size"), (1000, "damaged at frame 0")):
        blob.write_bytes(frames_of(plain, 1024, declared))
        with pytest.raises(Refusal, match=said):
            read_files(blob, index, ["a"])


def test_an_index_that_leads_out_of_its_blob(tmp_path: Path) -> None:
    plain = tar([file("a", "x" * 3000)])
    for data in (plain, frames_of(plain, 1024)):
        blob = blob_of(tmp_path, data)
        index = index_blob(blob)
        entry = index.entries[0]._replace(offset=len(plain) - 100)
        with pytest.raises(Refusal, match="a lies outside of it"):
            read_files(blob, replace(index, entries=(entry,)), ["a"])


def test_content_of_more_than_a_chunk_is_hashed_whole(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(3_000_000)
    index = index_blob(blob_of(tmp_path, tar([file("a", data)])))
    assert index.entries[0].sha256 == hashlib.sha256(data).hexdigest()


def test_what_follows_the_tar_in_its_own_frame(tmp_path: Path) -> None:
    """Digest and diff id are of all bytes, however far they are from the end mark."""
    plain = tar([file("a")])
    more = random.Random(2).randbytes(5_000_000)
    for packed in (gzip.compress(plain + more, mtime=0), plain + more):
        index = index_blob(blob_of(tmp_path, packed))
        assert index.diff_id == "sha256:" + hashlib.sha256(plain + more).hexdigest()
        assert index.digest == "sha256:" + hashlib.sha256(packed).hexdigest()


def test_a_name_twice_is_the_last_of_them_in_one_pass_too(tmp_path: Path) -> None:
    items = [file("a", "old"), file("b", "b"), file("a", "new"), file("c", "c")]
    blob = blob_of(tmp_path, gzip.compress(tar(items), mtime=0))
    index = index_blob(blob)
    assert read_files(blob, index, ["a", "b", "c"]) == {"a": b"new", "b": b"b", "c": b"c"}
    assert read_files(blob, index, ["c"]) == {"c": b"c"}
    longer = blob_of(tmp_path, gzip.compress(tar([file("a", "older"), *items[1:]]), mtime=0))
    assert read_files(longer, index_blob(longer), ["a", "b"]) == {"a": b"new", "b": b"b"}
    blob = blob_of(tmp_path, gzip.compress(tar(items), mtime=0))
    blob.write_bytes(blob.read_bytes()[:-40])
    with pytest.raises(Refusal, match="not a readable layer"):
        read_files(blob, index, ["a", "c"])


def test_files_of_any_frame_may_be_asked_for_first(tmp_path: Path) -> None:
    items = [file(name, name * 3000) for name in "abc"]
    plain = tar(items)
    blob = blob_of(tmp_path, frames_of(plain, 1024))
    index = index_blob(blob)
    for name in "abc":
        assert read_files(blob, index, [name]) == {name: (name * 3000).encode()}
    # Also the second frame, where no file begins.
    moved = replace(index, entries=(index.entries[0]._replace(offset=1024, size=10),))
    wanted = hashlib.sha256(plain[1024:1034]).hexdigest()
    moved = replace(index, entries=(moved.entries[0]._replace(sha256=wanted),))
    assert read_files(blob, moved, ["a"]) == {"a": plain[1024:1034]}


def test_a_plain_layer_has_no_frames(tmp_path: Path) -> None:
    index = index_blob(blob_of(tmp_path, tar([file("a", "x")])))
    assert (index.frame_size, index.frames) == (0, ())


def test_what_follows_the_tar_is_hashed_however_much_it_is(tmp_path: Path) -> None:
    """More than is read ahead of whoever looks into the tar."""
    plain = tar([file("a")]) + bytes(32 * 1024 * 1024)
    diff_id = "sha256:" + hashlib.sha256(plain).hexdigest()
    for packed in (plain, gzip.compress(plain, 1, mtime=0)):
        index = index_blob(blob_of(tmp_path, packed))
        assert (index.diff_id, index.size) == (diff_id, len(packed))
        assert index.digest == "sha256:" + hashlib.sha256(packed).hexdigest()


@pytest.mark.parametrize("between", [b"", b"\x50\x2a\x4d\x18\x04\0\0\0note"])
def test_what_holds_nothing_between_two_frames_is_no_end(tmp_path: Path, between: bytes) -> None:
    plain = tar([file("a", "x" * 3000), file("b", "y")])
    pack = zstandard.ZstdCompressor()
    middle = between or pack.compress(b"")
    blob = blob_of(tmp_path, pack.compress(plain[:1000]) + middle + pack.compress(plain[1000:]))
    index = index_blob(blob)
    assert index.diff_id == "sha256:" + hashlib.sha256(plain).hexdigest()
    assert read_files(blob, index, ["a", "b"]) == {"a": b"x" * 3000, "b": b"y"}


def test_a_frame_is_unpacked_once_for_what_lies_near(tmp_path: Path) -> None:
    plain = tar([file("a", random.Random(4).randbytes(6000))])
    blob = blob_of(tmp_path, frames_of(plain, 1024))
    read_from: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            read_from.append(self.tell())
            return super().read(size)

    read = frame_reader(blob, Watched(blob.read_bytes()), index_blob(blob))

    def number_of_reads(*frames: int) -> int:
        before = len(read_from)
        for number in frames:
            assert read(number * 1024 + 7, 9) == plain[number * 1024 + 7 :][:9]
        return len(read_from) - before

    assert number_of_reads(0, 0, 1, 1, 0, 2, 0, 1) == 3  # three stay in memory
    assert number_of_reads(3, 0, 1) == 1  # it takes the place of the one that was not asked for
    assert number_of_reads(2) == 1


def test_names_with_a_part_of_nothing(tmp_path: Path) -> None:
    items = [file("a//b", "x"), file("c/./d"), folder("e//"), hardlink("f", "a//b")]
    index = index_blob(blob_of(tmp_path, tar(items)))
    assert [entry.path for entry in index.entries] == ["a/b", "c/d", "e", "f"]
    assert (index.entries[3].link, index.entries[3].size) == ("a/b", 1)


@pytest.mark.parametrize("pack", ["tar+gzip", "tar+zstd twice"])
def test_a_layer_without_random_access_has_no_frame_size(tmp_path: Path, pack: str) -> None:
    index = index_blob(blob_of(tmp_path, PACK[pack](tar(SAMPLE))))
    assert (index.frame_size, index.frames) == (0, ())

"""Text files of gzip layers: kept in the pass that reads the layer, which is not read again."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from pipeline.errors import Refusal
from pipeline.oci.blob import Absent, NotHere
from pipeline.oci.content import index_blob
from pipeline.oci.elf import Elf
from pipeline.oci.files import read_files
from pipeline.oci.image import sha256
from pipeline.oci.index import LayerIndex
from pipeline.oci.reading import layer_index
from pipeline.oci.texts import MAX_TEXT, Keep, Texts
from tests.oci.layouts import tar
from tests.oci.test_passing import binary

FILES = {
    "a.py": b"x = 1\n",
    "b/RECORD": b"a,b\n" * 1000,
    "lib.so": b"\x7fELF\2\1\1\0" + b"\1" * 5000,
    "late": b"t" * 8192 + b"\0",
    "huge.txt": b"h" * (MAX_TEXT + 1),
    "empty": b"",
}


class Counted:
    """A blob that counts how often it was opened, and how far it was read."""

    def __init__(self, data: bytes):
        self.data, self.opened = data, 0

    def open_read(self) -> io.BytesIO:
        self.opened += 1
        return io.BytesIO(self.data)


def layer(files: dict[str, bytes] = FILES) -> bytes:
    return gzip.compress(tar(files), mtime=0)


@pytest.fixture
def blob() -> Counted:
    return Counted(layer())


def test_one_pass_indexes_a_layer_and_keeps_its_texts(blob: Counted, tmp_path: Path) -> None:
    index = layer_index(blob, sha256(blob.data), tmp_path)
    assert index == index_blob(Counted(blob.data))
    blob.opened = 0
    wanted = ["a.py", "b/RECORD", "empty", "late"]
    found = read_files(blob, index, wanted, Texts(tmp_path))
    assert found == {path: FILES[path] for path in wanted}
    assert blob.opened == 0
    # what is large, or no text, is read from the layer
    for path in ("lib.so", "huge.txt"):
        assert read_files(blob, index, [path, "a.py"], Texts(tmp_path))[path] == FILES[path]
    assert not list(tmp_path.glob("*.lock")) and not list(tmp_path.glob(".tmp-*"))


def test_a_layer_whose_index_came_from_elsewhere_is_scanned_once(
    blob: Counted, tmp_path: Path
) -> None:
    index, texts = index_blob(blob), Texts(tmp_path)
    blob.opened = 0
    assert read_files(blob, index, ["a.py"], texts) == {"a.py": FILES["a.py"]}
    assert blob.opened > 0
    blob.opened = 0
    assert read_files(blob, index, ["b/RECORD"], texts) == {"b/RECORD": FILES["b/RECORD"]}
    assert blob.opened == 0


@pytest.mark.parametrize("damage", [b"", b"SQLite format 3\0" + b"x" * 5000, b"z" * 9000])
def test_what_is_damaged_is_made_again(blob: Counted, tmp_path: Path, damage: bytes) -> None:
    index, texts = layer_index(blob, sha256(blob.data), tmp_path), Texts(tmp_path)
    (kept,) = tmp_path.glob("*.texts")
    kept.chmod(0o600)
    kept.write_bytes(damage)
    for _ in range(2):
        assert read_files(blob, index, ["a.py"], texts) == {"a.py": FILES["a.py"]}
    blob.opened = 0
    read_files(blob, index, ["a.py"], texts)
    assert blob.opened == 0


def test_a_text_that_is_another_is_not_believed(blob: Counted, tmp_path: Path) -> None:
    index, texts = index_blob(blob), Texts(tmp_path)
    with texts.collect(index.digest) as keep:
        assert keep is not None
        keep.text(index_entry(index, "a.py"), b"x = 2\n")
    assert read_files(blob, index, ["a.py"], texts) == {"a.py": FILES["a.py"]}


def index_entry(index: LayerIndex, path: str) -> str:
    return next(one.sha256 for one in index.entries if one.path == path)


def test_nothing_is_kept_of_a_layer_that_is_another_one(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="not what its name says"):
        layer_index(Counted(layer()), "sha256:" + "0" * 64, tmp_path)
    assert not list(tmp_path.glob("*.texts")) and not list(tmp_path.glob(".tmp-*"))


def test_nothing_is_kept_of_a_damaged_layer(tmp_path: Path) -> None:
    data = layer()[:-9]
    with pytest.raises(Refusal, match="not a readable layer"):
        layer_index(Counted(data), sha256(data), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_cache_that_takes_nothing_is_no_harm(blob: Counted, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    texts = Texts(tmp_path / "file")
    index = index_blob(blob, sha256(blob.data), texts)
    assert read_files(blob, index, ["a.py"], texts) == {"a.py": FILES["a.py"]}


def test_several_at_once_scan_a_layer_once(blob: Counted, tmp_path: Path) -> None:
    index, texts = index_blob(blob), Texts(tmp_path)
    found: list[dict[str, bytes]] = []
    threads = [
        threading.Thread(target=lambda: found.append(read_files(blob, index, ["a.py"], texts)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"a.py": FILES["a.py"]}] * 4
    assert len(list(tmp_path.glob("*.texts"))) == 1


def test_nothing_is_kept_of_layers_that_allow_random_access(tmp_path: Path) -> None:
    data = tar(FILES)
    layer_index(Counted(data), sha256(data), tmp_path)
    assert not list(tmp_path.glob("*.texts"))


def test_a_text_of_the_greatest_size_is_kept(tmp_path: Path) -> None:
    blob = Counted(layer({"largest.txt": b"h" * MAX_TEXT}))
    index, texts = index_blob(blob), Texts(tmp_path)
    for _ in range(2):
        blob.opened = 0
        assert len(read_files(blob, index, ["largest.txt"], texts)["largest.txt"]) == MAX_TEXT
    assert blob.opened == 0


def test_a_blob_that_is_not_here_is_asked_for_before_anything_is_made(
    blob: Counted, tmp_path: Path
) -> None:
    index, texts = index_blob(blob), Texts(tmp_path / "texts")
    with pytest.raises(NotHere, match=index.digest):
        read_files(Absent(index.digest), index, ["a.py"], texts)
    assert not (tmp_path / "texts").exists()


class KeptByOthers(Texts):
    """Holds nothing but one text at first, and others as soon as another process has ended."""

    def __init__(self, first: bytes, then: bytes):
        self.kept = [{_hash(first): first}, {_hash(then): then}]

    def has(self, digest: str) -> bool:
        return False

    def read(self, digest: str, wanted: Collection[str]) -> dict[str, bytes]:
        return self.kept.pop(0)

    @contextlib.contextmanager
    def collect(self, digest: str) -> Iterator[Keep | None]:
        yield None


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("more", [[], ["huge.txt"], ["lib.so", "huge.txt"]])
def test_what_another_process_kept_meanwhile_joins_what_was_there(
    blob: Counted, more: list[str]
) -> None:
    index = index_blob(blob)
    wanted = ["a.py", "b/RECORD", *more]
    texts = KeptByOthers(FILES["a.py"], FILES["b/RECORD"])
    assert read_files(blob, index, wanted, texts) == {path: FILES[path] for path in wanted}


def test_what_a_loader_reads_of_binaries_is_kept_in_the_same_pass(tmp_path: Path) -> None:
    """Of large ones too, but for those whose names lie where nothing is held."""
    large, far = 2 * MAX_TEXT, 16 * 1024 * 1024
    files = {
        "small.so": binary(20_000, 9000, 300),
        "large.so": binary(large, 6 * 1024 * 1024, 300),
        "far.so": binary(far, 300, 10 * 1024 * 1024),
        "broken.so": b"\x7fELF" + bytes(9000),
        "large.bin": b"no ELF" + bytes(large),
        "small.bin": b"no ELF" + bytes(9000),
    }
    data = layer(files)
    texts = Texts(tmp_path)
    index = index_blob(Counted(data), sha256(data), texts)
    named = {entry.sha256: entry.path for entry in index.entries}
    found = {named[key]: elf for key, elf in texts.binaries(index.digest).items()}
    wanted = Elf("liba.so.1", ("libb.so",))
    assert found == {"small.so": wanted, "large.so": wanted, "broken.so": None}
    assert index == index_blob(Counted(data))  # nothing of the index depends on what is kept


def test_a_text_of_the_greatest_size_is_kept_in_the_pass_that_indexes(tmp_path: Path) -> None:
    blob = Counted(layer({"largest.txt": b"h" * MAX_TEXT}))
    texts = Texts(tmp_path)
    index = index_blob(blob, sha256(blob.data), texts)
    blob.opened = 0
    assert len(read_files(blob, index, ["largest.txt"], texts)["largest.txt"]) == MAX_TEXT
    assert blob.opened == 0

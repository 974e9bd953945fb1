"""Facts about layers that allow no random access: taken in the pass that indexes them."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import zstandard

from pipeline.inventory.facts import read_binaries
from pipeline.oci.elf import Elf
from pipeline.oci.image import sha256
from pipeline.oci.reading import layer_index
from pipeline.oci.texts import MAX_TEXT, Texts
from pipeline.oci.view import LayerInfo, LayersView
from tests.inventory.test_loader import elf
from tests.oci.layouts import tar

FILES = {
    "lib/small.so": elf("small.so", ("libc.so.6",), runpath="$ORIGIN"),
    "lib/large.so": elf("large.so") + b"\1" * (MAX_TEXT + 1),
    "lib/none.so": b"\x7fELF" + bytes(100),
    "text": b"text",
}


class Once:
    """A blob that may be read while its index is made, and never again."""

    def __init__(self, data: bytes):
        self.data: bytes | None = data

    def open_read(self) -> io.BytesIO:
        assert self.data is not None, "the layer is read again"
        return io.BytesIO(self.data)


def view_of(data: bytes, cache: Path) -> LayersView:
    blob = Once(data)
    index = layer_index(blob, sha256(data), cache)
    blob.data = None
    layer = LayerInfo(index.digest, index.diff_id)
    return LayersView("image", [(blob, index)], [layer], {}, texts=Texts(cache))


def test_binaries_of_a_compressed_layer_are_read_in_the_pass_that_indexes_it(
    tmp_path: Path,
) -> None:
    wanted = {Elf("small.so", ("libc.so.6",), "", "$ORIGIN"), Elf("large.so", ())}
    stream = zstandard.ZstdCompressor().compressobj()
    packed = [
        gzip.compress(tar(FILES), mtime=0),
        stream.compress(tar(FILES)) + stream.flush(),  # one frame that declares no size
    ]
    for number, data in enumerate(packed):
        view = view_of(data, tmp_path / f"{number}")
        assert set(read_binaries(view, None).values()) == wanted


def test_a_cache_of_texts_alone_is_read_beside_the_layer(tmp_path: Path) -> None:
    """As another release of this program has left it."""
    data = gzip.compress(tar(FILES), mtime=0)
    view = view_of(data, tmp_path)
    texts = view.texts
    assert texts is not None
    view.blobs[0][0].data = data  # type: ignore[union-attr]
    for damage in (b"", b"z" * 9000):
        (kept,) = tmp_path.glob("*.texts")
        kept.chmod(0o600)
        kept.write_bytes(damage)
        assert texts.binaries(view.layers[0].digest) == {}
        assert len(read_binaries(view, None)) == 2

"""The layout writer: whole images only, foreign directories left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import Refusal, UsageError
from pipeline.oci.image import Layer, Runtime, build_image
from pipeline.oci.layer import LayerWriter
from pipeline.oci.layout import LayoutWriter
from tests.oci.readimage import read_image


def put(layout: LayoutWriter, scratch: Path, tag: str, text: bytes) -> Path:
    blob = scratch / f"{tag}.layer"
    blob.unlink(missing_ok=True)
    with LayerWriter(blob, epoch=0, level=3) as writer:
        writer.add_file("file", text, len(text))
        index = writer.close()
    layer = Layer(index.digest, index.diff_id, index.size, index.media_type, tag)
    image = build_image([layer], Runtime({}), epoch=0, architecture="arm64", annotations={})
    layout.put(tag, image, [(layer, blob)])
    return blob


def tags(root: Path) -> list[str]:
    entries = json.loads((root / "index.json").read_bytes())["manifests"]
    return [entry["annotations"]["org.opencontainers.image.ref.name"] for entry in entries]


def test_images_are_whole_and_sorted_by_tag(tmp_path: Path) -> None:
    layout = LayoutWriter(tmp_path / "dist")
    for tag, text in (("b", b"2"), ("a", b"1")):
        put(layout, tmp_path, tag, text)
    assert tags(tmp_path / "dist") == ["a", "b"]
    for tag, text in (("a", b"1"), ("b", b"2")):
        image = read_image(tmp_path / "dist", tag)
        image.verify()
        assert image.read("file") == text


def test_tag_moves_to_the_new_image_and_old_blobs_go(tmp_path: Path) -> None:
    layout = LayoutWriter(tmp_path / "dist")
    put(layout, tmp_path, "a", b"1")
    put(layout, tmp_path, "a", b"2")
    layout.keep_only(["a"])
    assert read_image(tmp_path / "dist", "a").read("file") == b"2"
    assert len(list((tmp_path / "dist" / "blobs" / "sha256").iterdir())) == 3


def test_blob_that_was_altered_is_replaced(tmp_path: Path) -> None:
    layout = LayoutWriter(tmp_path / "dist")
    blob = put(layout, tmp_path, "a", b"1")
    place = next(p for p in (tmp_path / "dist/blobs/sha256").iterdir() if p.samefile(blob))
    data = place.read_bytes()
    place.unlink()
    place.write_bytes(data[:-1] + b"?")
    put(LayoutWriter(tmp_path / "dist"), tmp_path, "a", b"1")
    read_image(tmp_path / "dist", "a").verify()


def test_another_writer_finds_what_is_there(tmp_path: Path) -> None:
    put(LayoutWriter(tmp_path / "dist"), tmp_path, "a", b"1")
    put(LayoutWriter(tmp_path / "dist"), tmp_path, "b", b"2")
    assert tags(tmp_path / "dist") == ["a", "b"]


def test_directory_of_someone_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "thesis").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="no OCI image layout"):
        LayoutWriter(tmp_path / "dist")


@pytest.mark.parametrize("text", ["", "[]", '{"manifests": [{}]}'])
def test_index_that_is_none_of_ours_is_refused(tmp_path: Path, text: str) -> None:
    put(LayoutWriter(tmp_path / "dist"), tmp_path, "a", b"1")
    (tmp_path / "dist" / "index.json").write_text(text, encoding="utf-8")
    with pytest.raises(Refusal, match="no index of ours"):
        LayoutWriter(tmp_path / "dist")

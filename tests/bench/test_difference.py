"""Two layouts that differ: the report names image, layer, entry and byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.difference import differences
from pipeline.oci.image import Layer, Runtime, build_image
from pipeline.oci.layer import LayerWriter
from pipeline.oci.layout import LayoutWriter


def layout(root: Path, files: dict[str, bytes], *, level: int = 3, env: str = "1") -> Path:
    blob = root.with_suffix(".layer")
    with LayerWriter(blob, epoch=0, level=level) as writer:
        for path, data in files.items():
            writer.add_file(path, data, len(data))
        index = writer.close()
    layer = Layer(index.digest, index.diff_id, index.size, index.media_type, "test")
    runtime = Runtime({"A": env})
    image = build_image([layer], runtime, epoch=0, architecture="arm64", annotations={"env": env})
    LayoutWriter(root).put("v1", image, [(layer, blob)])
    return root


SAME = {"a/b": b"0123456789" * 500}


def test_equal_layouts_differ_in_nothing(tmp_path: Path) -> None:
    assert not list(differences(layout(tmp_path / "x", SAME), layout(tmp_path / "y", SAME)))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"a/b": b"0123456789" * 499 + b"012345678x"}, "a/b: content differs from byte 4999 on"),
        ({"a/c": b"0123456789" * 500}, "a/b: name 'a/b' and 'a/c'"),
        ({**SAME, "z": b""}, "entry 'z' is in one of them only"),
    ],
)
def test_entry_and_byte_are_named(tmp_path: Path, other: dict[str, bytes], text: str) -> None:
    found = list(differences(layout(tmp_path / "x", SAME), layout(tmp_path / "y", other)))
    assert f"v1: layer 0: {text}" in found


def test_other_compression_of_the_same_entries(tmp_path: Path) -> None:
    one, other = layout(tmp_path / "x", SAME), layout(tmp_path / "y", SAME, level=19)
    assert "v1: layer 0: equal entries: the compression differs" in list(differences(one, other))


def test_manifest_alone(tmp_path: Path) -> None:
    found = list(differences(layout(tmp_path / "x", SAME), layout(tmp_path / "y", SAME, env="2")))
    assert any(text.startswith("v1: manifest.annotations: ") for text in found)
    assert not any("layer" in text for text in found)

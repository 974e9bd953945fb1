"""Views: one interface over layers and over a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.oci.view import LayersView, RootfsView
from tests.oci.makelayer import Item, file, folder, hardlink, indexed, symlink, whiteout


def view(directory: Path, *layers: Sequence[Item]) -> LayersView:
    return LayersView("test", indexed(directory, *layers), [], {})


def test_contents_come_from_the_layer_that_has_the_last_word(tmp_path: Path) -> None:
    image = view(tmp_path, [file("a", "1"), file("b", "1")], [file("a", "2")])
    assert image.read_many(["a", "b"]) == {"a": b"2", "b": b"1"}
    assert image.read_many([]) == {}


def test_what_is_no_file(tmp_path: Path) -> None:
    image = view(
        tmp_path, [folder("d"), symlink("l", "a"), file("a"), file("gone")], [whiteout("gone")]
    )
    for path in ("d", "l", "gone", "none"):
        with pytest.raises(KeyError):
            image.read_many(["a", path])


def test_hard_links_in_one_layer_and_into_a_lower_one(tmp_path: Path) -> None:
    image = view(
        tmp_path,
        [file("a", "one"), hardlink("b", "a")],
        [hardlink("c", "a")],
        [file("a", "replaced")],
    )
    assert image.read_many(["a", "b", "c"]) == {"a": b"replaced", "b": b"one", "c": b"one"}


def test_files_that_a_layer_names_through_a_link(tmp_path: Path) -> None:
    image = view(
        tmp_path,
        [folder("usr/lib"), symlink("lib", "usr/lib")],
        [file("lib/a", "1"), file("lib/b", "2"), file("other", "1")],
    )
    assert image.read_many(["usr/lib/a", "usr/lib/b", "other"]) == {
        "usr/lib/a": b"1",
        "usr/lib/b": b"2",
        "other": b"1",
    }


def test_a_directory(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "d/e").mkdir(parents=True)
    (root / "d/x").write_bytes(b"x")
    (root / "d/x").chmod(0o640)
    (root / "link").symlink_to("d/x")
    (root / "out").symlink_to("/etc/passwd")
    image = RootfsView(root)
    assert image.name == f"rootfs:{root}"
    assert [(n.entry.path, n.entry.type) for n in image.tree] == [
        ("d", "dir"),
        ("d/e", "dir"),
        ("d/x", "file"),
        ("link", "symlink"),
        ("out", "symlink"),
    ]
    assert image.tree.nodes["d/x"].entry.mode == 0o640
    assert image.read_many(["d/x"]) == {"d/x": b"x"}
    for path in ("link", "out", "d", "none", "../root/d/x"):
        with pytest.raises(KeyError):
            image.read_many([path])


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        RootfsView(tmp_path / "none")

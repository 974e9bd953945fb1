"""Removal: what goes with a distribution, and what must not."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from pipeline.errors import Refusal
from pipeline.inventory.distributions import read_inventory
from pipeline.inventory.ownership import Ownership
from pipeline.oci.layer import LayerWriter
from pipeline.oci.view import LayersView
from pipeline.wheels.install import record_bytes
from pipeline.wheels.remove import removal, whiteouts
from pipeline.wheels.target import Target

SITE = "usr/local/lib/python3.11/dist-packages"
Files = dict[str, str]


class Image:
    """An image of a few distributions, as an ownership."""

    def __init__(self, directory: Path):
        self.writer = LayerWriter(directory / "blob", epoch=0, level=1, threads=1)
        self.blob = directory / "blob"

    def add(self, name: str, files: Collection[str], rows: Collection[str] | None = None) -> Image:
        """Add a distribution; `files` and `rows` are relative to site-packages."""
        info = f"{name}-1.0.dist-info"
        for file in [*files, f"{info}/METADATA"]:
            data = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode()
            path = f"{SITE}/{file}" if not file.startswith("/") else file[1:]
            if path not in self.writer:
                self.writer.add_file(path, data, len(data))
        named = [*(rows if rows is not None else files), f"{info}/METADATA"]
        record = record_bytes([(row, "00" * 32, 0) for row in named], f"{info}/RECORD")
        self.writer.add_file(f"{SITE}/{info}/RECORD", record, len(record))
        return self

    def ownership(self) -> Ownership:
        index = self.writer.close()
        view = LayersView("test", [(self.blob, index)], [], {})
        return Ownership(read_inventory(view, ["/" + SITE]), view.tree)


def gone(ownership: Ownership, *leaving: str) -> list[str]:
    return [path.removeprefix(SITE + "/") for path in removal(ownership, leaving)]


def hidden(ownership: Ownership, *leaving: str, coming: Collection[str] = ()) -> list[str]:
    paths = removal(ownership, leaving)
    found = whiteouts(ownership.tree, paths, Target(), coming=[f"{SITE}/{path}" for path in coming])
    return [path.removeprefix(SITE + "/") for path in found]


def test_what_record_names_goes_as_few_whiteouts(tmp_path: Path) -> None:
    image = Image(tmp_path).add("a", ["a/x.py", "a/b/y.py", "a.pth"]).add("b", ["b.py"]).ownership()
    assert "a/x.py" in gone(image, "a") and "b.py" not in gone(image, "a")
    assert hidden(image, "a") == ["a", "a-1.0.dist-info", "a.pth"]


def test_a_path_that_another_distribution_owns_stays(tmp_path: Path) -> None:
    image = (
        Image(tmp_path)
        .add("a", ["ns/shared.py", "ns/a.py", "ns/sub/a.py"])
        .add("b", ["ns/shared.py"])
        .ownership()
    )
    assert hidden(image, "a") == ["a-1.0.dist-info", "ns/a.py", "ns/sub"]
    assert hidden(image, "a", "b") == ["a-1.0.dist-info", "b-1.0.dist-info", "ns"]


def test_a_file_that_nobody_owns_stays_with_its_directory(tmp_path: Path) -> None:
    image = Image(tmp_path).add("a", ["a/x.py", "a/log.txt"], ["a/x.py"]).ownership()
    assert hidden(image, "a") == ["a-1.0.dist-info", "a/x.py"]


def test_all_of_dist_info_goes(tmp_path: Path) -> None:
    image = Image(tmp_path).add("a", ["a-1.0.dist-info/left.txt"], []).ownership()
    assert hidden(image, "a") == ["a-1.0.dist-info"]


def test_bytecode_goes_with_its_source(tmp_path: Path) -> None:
    cached = ["a/__pycache__/x.cpython-311.pyc", "a/__pycache__/x.cpython-311.opt-1.pyc"]
    other = ["a/__pycache__/xy.cpython-311.pyc", "a/keep.txt"]
    image = Image(tmp_path).add("a", ["a/x.py", "a/x.pyc", *cached, *other], ["a/x.py"]).ownership()
    assert hidden(image, "a") == sorted(["a-1.0.dist-info", "a/x.py", "a/x.pyc", *cached])


def test_scripts_above_site_packages_go_and_the_schemes_directories_stay(tmp_path: Path) -> None:
    image = Image(tmp_path).add("a", ["/usr/local/bin/a"], ["../../../bin/a"]).ownership()
    assert hidden(image, "a") == ["usr/local/bin/a", "a-1.0.dist-info"]


def test_rows_of_files_that_are_not_there_are_fine(tmp_path: Path) -> None:
    image = Image(tmp_path).add("a", [], ["gone.py"]).ownership()
    assert hidden(image, "a") == ["a-1.0.dist-info"]


@pytest.mark.parametrize(
    "row",
    [
        "../../../../../etc/passwd",
        "../../../../../../../../etc/passwd",
        "../../../../lib/python3/x.py",
        "/etc/passwd",
        "a/../../../../../bin/sh",
    ],
)
def test_case_19_rows_that_leave_the_scheme_are_refused(tmp_path: Path, row: str) -> None:
    image = Image(tmp_path).add("a", ["/etc/passwd", "/usr/bin/sh"], ["b.py", row]).ownership()
    with pytest.raises(Refusal) as caught:
        removal(image, ["a"])
    assert repr(row) in "\n".join(caught.value.details)
    assert removal(image, ["b"]) == []


def test_a_distribution_without_record_is_refused(tmp_path: Path) -> None:
    image = Image(tmp_path)
    data = b"Metadata-Version: 2.1\nName: a\nVersion: 1.0\n"
    image.writer.add_file(f"{SITE}/a-1.0.dist-info/METADATA", data, len(data))
    with pytest.raises(Refusal, match="has no RECORD"):
        removal(image.ownership(), ["a"])


def test_a_row_that_is_a_link_removes_the_link(tmp_path: Path) -> None:
    image = Image(tmp_path).add("b", ["b/real.py"])
    image.writer.add_symlink(f"{SITE}/link.py", "b/real.py")
    image.writer.add_symlink(f"{SITE}/dir", "b")
    image.add("a", [], ["link.py", "dir/other.py"])
    assert hidden(image.ownership(), "a") == ["a-1.0.dist-info", "link.py"]


def test_what_comes_again_is_neither_hidden_nor_are_its_parents(tmp_path: Path) -> None:
    image = Image(tmp_path).add("a", ["a/x.py", "a/old.py", "a/sub/y.py"]).ownership()
    assert hidden(image, "a", coming=["a/x.py", "a/new.py"]) == [
        "a-1.0.dist-info",
        "a/old.py",
        "a/sub",
    ]

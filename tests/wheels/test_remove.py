"""Removal: what goes with a distribution, and what must not."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence

import pytest

from pipeline.errors import Refusal
from pipeline.oci.index import DIRECTORY, FILE, SYMLINK, Entry
from pipeline.oci.tree import Tree
from pipeline.wheels.remove import record_paths, removed_files, whiteouts
from pipeline.wheels.target import Target

SITE = "usr/local/lib/python3.11/dist-packages"
INFO = "a-1.0.dist-info"


def record(rows: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows((row, "", "") for row in rows)
    return text.getvalue().encode()


def tree(*files: str, directories: bool = True) -> Tree:
    """Return a tree of files below site-packages, or below the root when they start with /."""
    entries: dict[str, Entry] = {}
    for file in files:
        path = file[1:] if file.startswith("/") else f"{SITE}/{file}"
        parent = path
        while directories and (parent := parent.rpartition("/")[0]):
            entries[parent] = Entry(parent, DIRECTORY, 0o755)
        entries[path] = Entry(path, FILE, 0o644)
    return Tree.merge([list(entries.values())])


def below(paths: Collection[str]) -> list[str]:
    return [path.removeprefix(SITE + "/") for path in sorted(paths)]


def hidden(
    image: Tree,
    rows: Sequence[str],
    kept: Collection[str] = (),
    arriving: Collection[str] = (),
) -> list[str]:
    """Return the whiteouts, relative to site-packages, when a distribution with these rows goes."""
    paths = record_paths(record([*rows, f"{INFO}/RECORD"]), Target(), "a")
    gone = removed_files(image, paths, kept=[f"{SITE}/{path}" for path in kept])
    return below(whiteouts(image, gone, [f"{SITE}/{path}" for path in arriving]))


def test_what_record_names_goes_as_few_whiteouts() -> None:
    image = tree("a/x.py", "a/b/y.py", "a.pth", f"{INFO}/RECORD", "b.py")
    assert hidden(image, ["a/x.py", "a/b/y.py", "a.pth"]) == ["a", INFO, "a.pth"]


def test_a_path_that_another_distribution_owns_stays() -> None:
    image = tree("ns/shared.py", "ns/a.py", "ns/sub/a.py", f"{INFO}/RECORD")
    rows = ["ns/shared.py", "ns/a.py", "ns/sub/a.py"]
    assert hidden(image, rows, kept=["ns/shared.py"]) == [INFO, "ns/a.py", "ns/sub"]


@pytest.mark.parametrize("directories", [True, False])
def test_a_file_that_nobody_owns_stays_with_its_directories(directories: bool) -> None:
    image = tree("a/x.py", "a/deep/er/log.txt", f"{INFO}/RECORD", "z.py", directories=directories)
    assert hidden(image, ["a/x.py"]) == [INFO, "a/x.py"]


def test_all_of_dist_info_goes() -> None:
    image = tree(f"{INFO}/RECORD", f"{INFO}/licenses/left.txt", "b.py")
    assert hidden(image, []) == [INFO]


def test_bytecode_goes_with_its_source() -> None:
    cached = ["a/__pycache__/x.cpython-311.opt-1.pyc", "a/__pycache__/x.cpython-311.pyc"]
    image = tree("a/x.py", "a/x.pyc", *cached, "a/__pycache__/xy.cpython-311.pyc", "b.py")
    assert hidden(image, ["a/x.py"]) == [*cached, "a/x.py", "a/x.pyc"]


def test_a_cache_that_is_empty_then_goes_too() -> None:
    image = tree("a/x.py", "a/__pycache__/x.cpython-311.pyc", "a/data.txt")
    assert hidden(image, ["a/x.py"]) == ["a/__pycache__", "a/x.py"]


def test_scripts_above_site_packages_go() -> None:
    image = tree("/usr/local/bin/a", "/usr/local/bin/b", f"{INFO}/RECORD", "b.py")
    assert hidden(image, ["../../../bin/a"]) == ["usr/local/bin/a", INFO]


def test_rows_of_files_that_are_not_there_are_fine() -> None:
    assert hidden(tree(f"{INFO}/RECORD", "b.py"), ["gone.py"]) == [INFO]


def test_a_row_that_is_a_link_removes_the_link() -> None:
    link = Entry(f"{SITE}/link.py", SYMLINK, 0o777, link="real.py")
    image = Tree.merge([[link]], tree("real.py"))
    assert hidden(image, ["link.py"]) == ["link.py"]


def test_what_arrives_keeps_its_directories() -> None:
    image = tree("a/x.py", "a/old.py", "a/sub/y.py", f"{INFO}/RECORD", "b.py")
    found = hidden(image, ["a/old.py", "a/x.py", "a/sub/y.py"], arriving=["a/new.py"])
    assert found == [INFO, "a/old.py", "a/sub", "a/x.py"]


@pytest.mark.parametrize(
    "row",
    [
        "../../../../../etc/passwd",
        "../../../../../../../../etc/passwd",
        "../../../../../../../../usr/local/bin/x",
        "../../../../lib/python3/x.py",
        "../../../../local",
        "/etc/passwd",
        "a/../../../../../bin/sh",
        "",
    ],
)
def test_case_19_rows_that_leave_the_scheme_are_refused(row: str) -> None:
    with pytest.raises(Refusal) as caught:
        record_paths(record(["b.py", row]), Target(), "sneaky")
    assert "sneaky" in caught.value.message and repr(row) in caught.value.details


def test_case_19_odd_rows_that_are_right() -> None:
    data = record(["../../../bin/ray", "ray/a,b.txt", "/usr/local/share/x"]) + b"\n"
    assert record_paths(data, Target(), "ray") == [
        "usr/local/bin/ray",
        f"{SITE}/ray/a,b.txt",
        "usr/local/share/x",
    ]


def test_a_record_that_cannot_be_read() -> None:
    with pytest.raises(Refusal, match="unreadable"):
        record_paths(b"\xff,,\n", Target(), "a")

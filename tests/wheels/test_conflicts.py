"""Paths of several distributions, judged before anything is written."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline.errors import Refusal
from pipeline.oci.files import read_files
from pipeline.wheels.conflicts import Owned, resolve_conflicts
from pipeline.wheels.layer import WheelFile, plan_wheel, write_wheel_layer
from pipeline.wheels.target import Target
from tests.wheels.makewheel import AARCH64, KnownEntry, elf, make_wheel

SITE = "usr/local/lib/python3.12/dist-packages"
TARGET = Target(python="3.12.3", site_packages="/" + SITE)
P = "nvidia_cutlass_dsl/python_packages/cutlass/"
SAME = {"nvidia_cutlass_dsl/LICENSE": b"license text\n", "nvidia_cutlass_dsl/__init__.py": b""}
LIBS_BASE, LIBS_CU13 = "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-cu13"
WHEELS: dict[str, Mapping[str, bytes]] = {
    LIBS_BASE: {**SAME, P + "ops.py": b"API = 'object'\n", P + "_ir.so": elf(AARCH64)},
    LIBS_CU13: {
        **SAME,
        P + "ops.py": b"API = 'positional'\n",
        P + "_ir.so": elf(AARCH64) + b"cu13",
        P + "extra.py": b"E = 1\n",
    },
    "plain-a": {"shared/data.txt": b"same\n", "plain_a.py": b"A = 1\n"},
    "plain-b": {"shared/data.txt": b"same\n", "plain_b.py": b"B = 1\n"},
    "dir-a": {"tool/__init__.py": b""},
    "dir-b": {"tool": b"a file, not a package\n"},
    "case-a": {"Kernel.py": b"A = 1\n"},
    "case-b": {"kernel.py": b"B = 1\n"},
}
KNOWN = [
    KnownEntry("file-conflict", LIBS_BASE, P + "ops.py", owner=LIBS_CU13),
    KnownEntry(
        "file-conflict", LIBS_BASE, f"/{SITE}/{P}_ir.so", owner="NVIDIA_cutlass-dsl-libs.cu13"
    ),
]


def wheels(directory: Path, *names: str) -> list[WheelFile]:
    paths = [make_wheel(directory, name, "4.5.1", dict(WHEELS[name])) for name in names]
    return [WheelFile(path, path.name) for path in paths]


def judge(
    files: list[WheelFile],
    known: list[KnownEntry] | None = None,
    owned: Mapping[str, Owned] | None = None,
) -> dict[str, dict[str, str]]:
    plans = [plan_wheel(file, TARGET) for file in files]
    return resolve_conflicts(plans, TARGET, known=known or [], owned=owned)


def conflicts(
    files: list[WheelFile],
    known: list[KnownEntry] | None = None,
    owned: Mapping[str, Owned] | None = None,
) -> list[str]:
    """Return the paths below site-packages that a refusal names, whatever the order."""
    found = set()
    for order in itertools.permutations(files):
        with pytest.raises(Refusal, match=r"^file-conflict: ") as caught:
            judge(list(order), known, owned)
        found.add(tuple(caught.value.details))
    assert len(found) == 1
    return [line.split(": ")[0].removeprefix(f"/{SITE}/") for line in found.pop()]


def test_case_30_other_bytes(tmp_path: Path) -> None:
    assert conflicts(wheels(tmp_path, LIBS_BASE, LIBS_CU13)) == [P + "_ir.so", P + "ops.py"]


def test_case_30_one_owner_is_not_enough_for_two_paths(tmp_path: Path) -> None:
    files = wheels(tmp_path, LIBS_BASE, LIBS_CU13)
    assert conflicts(files, KNOWN[:1]) == [P + "_ir.so"]
    stranger = [
        KnownEntry("file-conflict", LIBS_BASE, path, owner="other") for path in (P + "ops.py",)
    ]
    assert conflicts(files, stranger) == [P + "_ir.so", P + "ops.py"]


def test_case_30_the_owner_that_the_lock_names_has_its_files_in_any_order(tmp_path: Path) -> None:
    files = wheels(tmp_path, LIBS_BASE, LIBS_CU13)
    digests = set()
    for order in (files, files[::-1]):
        leave_out = judge(order, KNOWN)
        assert list(leave_out) == [LIBS_BASE]
        assert sorted(leave_out[LIBS_BASE]) == [f"{SITE}/{P}_ir.so", f"{SITE}/{P}ops.py"]
        ready = [
            WheelFile(
                f.path, f.filename, leave_out.get(f.filename.split("-")[0].replace("_", "-"), {})
            )
            for f in order
        ]
        blob = tmp_path / "blob"
        index, installed = write_wheel_layer(ready, blob, TARGET, epoch=0, level=1, known=KNOWN)
        found = read_files(blob, index, [f"{SITE}/{P}ops.py", installed[0].record])
        assert found[f"{SITE}/{P}ops.py"] == b"API = 'positional'\n"
        assert b"ops.py" not in found[installed[0].record]
        digests.add(index.digest)
        blob.unlink()
    assert len(digests) == 1


def test_case_30_equal_bytes_are_shared(tmp_path: Path) -> None:
    files = wheels(tmp_path, "plain-a", "plain-b")
    assert judge(files) == {}
    index, installed = write_wheel_layer(files, tmp_path / "blob", TARGET, epoch=0, level=1)
    shared = f"{SITE}/shared/data.txt"
    assert [entry.path for entry in index.entries].count(shared) == 1
    records = read_files(tmp_path / "blob", index, [item.record for item in installed])
    assert all(b"shared/data.txt,sha256=" in data for data in records.values())
    assert any("shared" in note for note in installed[1].notes)


def test_case_30_file_against_directory(tmp_path: Path) -> None:
    assert conflicts(wheels(tmp_path, "dir-a", "dir-b")) == ["tool"]


def test_case_30_case_alone_is_no_conflict(tmp_path: Path) -> None:
    assert judge(wheels(tmp_path, "case-a", "case-b")) == {}


def test_all_conflicts_in_one_refusal(tmp_path: Path) -> None:
    files = wheels(tmp_path, "dir-a", "dir-b", LIBS_BASE, LIBS_CU13)
    with pytest.raises(Refusal) as caught:
        judge(files)
    assert len(caught.value.details) == 3


def test_the_parents_files_count(tmp_path: Path) -> None:
    files = wheels(tmp_path, "plain-a")
    path = f"{SITE}/shared/data.txt"
    same = Owned("other", hashlib.sha256(b"same\n").hexdigest())
    assert judge(files, owned={path: same}) == {}
    other = {path: Owned("other", "0" * 64)}
    assert conflicts(files, owned=other) == ["shared/data.txt"]
    assert conflicts(files, owned={f"{SITE}/shared": same}) == ["shared"]
    assert conflicts(files, owned={f"{SITE}/plain_a.py/x": same}) == ["plain_a.py"]
    known = [KnownEntry("file-conflict", "plain-a", "shared/data.txt", owner="other")]
    assert list(judge(files, known, other)["plain-a"]) == [path]
    mine = [KnownEntry("file-conflict", "other", "shared/data.txt", owner="plain-a")]
    assert judge(files, mine, other) == {}


def test_the_same_distribution_in_the_parent_is_replaced_without_conflict(tmp_path: Path) -> None:
    owned = {f"{SITE}/plain_a.py": Owned("Plain.A", "0" * 64)}
    assert judge(wheels(tmp_path, "plain-a"), owned=owned) == {}


def test_two_wheels_of_one_distribution(tmp_path: Path) -> None:
    paths = [make_wheel(tmp_path, "a", version) for version in ("1.0", "2.0")]
    with pytest.raises(Refusal, match="a is there twice"):
        judge([WheelFile(path, path.name) for path in paths])

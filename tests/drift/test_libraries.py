"""A library of which the loader takes another copy is drift, although no package moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.drift.changes import LIBRARY
from tests.audit.images import Content
from tests.drift.compared import compared
from tests.inventory.test_loader import NCCL, OTHER, RPATH, SYSTEM, TORCH, elf

BASE: dict[str, Content] = {
    TORCH: elf("libtorch.so", ("libnccl.so.2",), runpath=RPATH),
    NCCL: elf("libnccl.so.2", salt="1"),
    OTHER: elf("libnccl.so.2", salt="2"),
}


def test_a_search_path_moves_a_library(tmp_path: Path) -> None:
    env: dict[str, Any] = {"Env": ["LD_LIBRARY_PATH=/opt/nccl"]}
    comparison = compared(tmp_path, [BASE], [BASE], configs=({}, env))
    (change,) = comparison.changes
    assert (change.kind, change.name) == (LIBRARY, "libnccl.so.2")
    assert change.before == f"/{NCCL}" and change.after == f"/{OTHER}"
    rules = {one.rule: one.message for one in comparison.findings}
    assert rules["drift-library"] == f"the loader takes /{OTHER}, and took /{NCCL}"
    assert "drift-setting" in rules and comparison.worst == "error"


def test_a_new_copy_in_the_systems_directory_changes_what_a_name_gets(tmp_path: Path) -> None:
    comparison = compared(tmp_path, [BASE], [BASE, {SYSTEM: elf("libnccl.so.2", salt="3")}])
    (change,) = comparison.changes
    assert change.after == " and ".join(sorted((f"/{NCCL}", f"/{SYSTEM}")))
    assert change.layer is not None


def test_other_bytes_in_the_same_place_are_no_other_copy(tmp_path: Path) -> None:
    comparison = compared(tmp_path, [BASE], [BASE, {NCCL: elf("libnccl.so.2", salt="4")}])
    assert comparison.changes == () and [one.path for one in comparison.files] == [NCCL]


@pytest.mark.parametrize(
    ("added", "number"),
    [
        ({"etc/ld.so.conf": "/opt/nccl\n"}, 1),  # the copy lies in a layer that both have
        ({TORCH: elf("libtorch.so", ("libnccl.so.2",), runpath="/opt/nccl")}, 1),
        ({"opt/app": elf("", ("libnccl.so.2",), rpath="/opt/nccl")}, 1),
    ],
    ids=["configuration", "search path of an object", "another object"],
)
def test_the_layer_is_that_which_made_the_loader_choose(
    tmp_path: Path, added: dict[str, Content], number: int
) -> None:
    (change,) = compared(tmp_path, [BASE], [BASE, added]).changes
    assert f"/{OTHER}" in change.after
    assert change.layer is not None and change.layer.number == number


def test_a_variable_is_of_no_layer(tmp_path: Path) -> None:
    env = {"Env": ["LD_LIBRARY_PATH=/opt/nccl"]}
    later: dict[str, Content] = {TORCH: elf("libtorch.so", ("libnccl.so.2",), salt="2")}
    (change,) = compared(tmp_path, [BASE], [BASE, later], configs=({}, env)).changes
    assert change.after == f"/{OTHER}" and change.layer is None

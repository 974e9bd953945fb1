"""A library of which the loader takes another copy is drift, although no package moved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.drift.model import LIBRARY
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

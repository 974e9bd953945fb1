"""Drift along the real chain, where it is built: `dist/` of this checkout or $SM121_CHAIN_DIST."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.drift.changes import Change
from pipeline.drift.compare import compare
from pipeline.drift.comparison import Comparison
from pipeline.drift.history import line_history
from pipeline.drift.opening import Opener
from pipeline.drift.sides import Shared
from pipeline.wheels.house import default_cache

ROOT = Path(__file__).parents[2]
DIST = Path(os.environ.get("SM121_CHAIN_DIST", ROOT / "dist"))
CUTLASS = [
    "nvidia-cutlass-dsl",
    "nvidia-cutlass-dsl-libs-base",
    "nvidia-cutlass-dsl-libs-core",
    "nvidia-cutlass-dsl-libs-cu12",
    "nvidia-cutlass-dsl-libs-cu13",
]


@pytest.fixture(scope="module")
def opener() -> Opener:
    if not (DIST / "index.json").is_file():
        pytest.skip(f"the chain is not built: {DIST} has no index.json")
    cache = default_cache()
    return Opener(ROOT, cache, "", "wheels", Shared(cache), dist=DIST)


def moves(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    return [(one.name, one.direction, one.before, one.after) for one in comparison.changes]


def unmet(change: Change) -> list[tuple[str, str]]:
    return [(str(wish), wish.state) for wish in change.wishes if wish.state != "met"]


def test_v4_moves_nccl_up_and_torch_wants_it_otherwise(opener: Opener) -> None:
    v3 = opener.open("v3")
    comparison = compare(v3, opener.open("v4", [v3]))
    assert moves(comparison) == [("nvidia-nccl-cu13", "up", "2.29.7", "2.30.7")]
    (change,) = comparison.changes
    assert unmet(change) == [("torch 2.13.0 wants nvidia-nccl-cu13==2.29.7", "intended")]
    assert change.layer is not None and change.layer.stage == "v4"
    assert comparison.worst == "note" and comparison.base_changed is False


def test_v5_moves_the_family_and_quack_down_and_vllm_wants_them_otherwise(opener: Opener) -> None:
    v4 = opener.open("v4")
    comparison = compare(v4, opener.open("v5", [v4]))
    assert moves(comparison) == [
        *((name, "down", "4.7.1", "4.6.2") for name in CUTLASS),
        ("quack-kernels", "down", "0.6.5", "0.6.4"),
    ]
    wishes = [wish for change in comparison.changes for wish in unmet(change)]
    assert wishes == [
        ("vllm 0.30.0 wants nvidia-cutlass-dsl[cu13]==4.7.1", "intended"),
        ("vllm 0.30.0 wants quack-kernels==0.6.5", "intended"),
    ]
    stages = {change.layer.stage for change in comparison.changes if change.layer is not None}
    assert stages == {"v5"} and comparison.worst == "note"


def test_the_whole_line_moves_nothing_else(opener: Opener) -> None:
    history = line_history(opener)
    moved = {
        (history.columns[at].name, row.name, change.direction)
        for row in history.rows
        for at, change in enumerate(row.changes)
        if change is not None and change.direction != "files-changed"
    }
    assert moved == {
        ("v3", "flashinfer-python", "up"),
        ("v4", "nvidia-nccl-cu13", "up"),
        *(("v5", name, "down") for name in (*CUTLASS, "quack-kernels")),
    }
    patched = {
        (history.columns[at].name, row.name)
        for row in history.rows
        for at, change in enumerate(row.changes)
        if change is not None and change.direction == "files-changed"
    }
    stages = ("v1", "v2", "v6", "v7", "v10", "v11")
    assert patched == {("v8", "flashinfer-python"), *((stage, "vllm") for stage in stages)}
    # Every change is one that its stage names: nothing is loud.
    assert [one for one in history.findings if one.severity != "note"] == []

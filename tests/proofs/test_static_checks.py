"""The static checks of the stages: each says no on what the parent holds, and yes on the stage."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Sources

STAGES = Path(__file__).parents[2] / "stages"


def text_checks(stage: str) -> list[dict[str, Any]]:
    data = tomllib.loads((STAGES / f"{stage}.toml").read_text(encoding="utf-8"))
    return [check for check in data["checks"] if check["kind"] in ("contains", "absent")]


def holds(check: dict[str, Any], text: str) -> bool:
    return (check["text"] in text) == (check["kind"] == "contains")


@pytest.mark.parametrize(
    "stage",
    [
        "v01-nope-mla",
        "v02-nan-debug",
        "v06-pdl-gate",
        "v07-indexer-fill",
        "v10-indexer-topk",
        "v11-dflash2",
    ],
)
def test_vllm(vllm: Sources, stage: str) -> None:
    for check in text_checks(stage):
        assert not holds(check, vllm.text(check["file"])), check
        assert holds(check, vllm.patched(check["file"])), check


def test_v8(flashinfer: Sources) -> None:
    for check in text_checks("v08-fp8-kv"):
        assert not holds(check, flashinfer.text(check["file"])), check
        assert holds(check, flashinfer.patched(check["file"])), check


def test_v3(flashinfer_before: Sources, flashinfer: Sources) -> None:
    for check in text_checks("v03-flashinfer"):
        assert not holds(check, flashinfer_before.text(check["file"])), check
        assert holds(check, flashinfer.text(check["file"])), check

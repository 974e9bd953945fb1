"""`show` on the chain itself: what is in an image and why, and a status for every stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.stage_files import load_chain

ROOT = Path(__file__).parents[2]


def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *args: str) -> str:
    monkeypatch.chdir(ROOT)
    assert main(["show", *args]) == 0
    return capsys.readouterr().out


def test_v11_in_fifty_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(capsys, monkeypatch, "v11")
    assert len(text.splitlines()) <= 50
    for said in ("sm121-v11-dflash2", "v11.A1", "v11.G.7", "v11.P3", "has it; 7 signs", "why  "):
        assert said in text
    for stage in ("v10", "v8", "v7", "v6", "v5", "v4", "v3", "v1"):
        assert f"on       {stage}: " in text


@pytest.mark.parametrize("base", ["wheels", "day0"])
def test_every_stage_has_its_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, base: str
) -> None:
    lines = shown(capsys, monkeypatch, "--base", base).splitlines()
    for stage in load_chain(ROOT / "stages"):
        (line,) = (line for line in lines if line.startswith(f"{stage.name} "))
        assert line.endswith(f"[{stage.on(base).state}]")


def test_day0_says_what_was_never_tried(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = " ".join(shown(capsys, monkeypatch, "--base", "day0").split())
    assert "patch pdl-gate: v6 in vllm/platforms/cuda.py (unverified: " in text
    assert "patch fp8-kv-plan-dtype: not needed: " in text
    assert "patch dflash2-kv-group: no-variant: " in text
    assert "vllm/model_executor/models/qwen3_dflash2.py" in text

"""Variables that are meant as they are: by a stage, or by the sources that the image holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.drift.compare import compare
from pipeline.drift.comparison import Comparison
from pipeline.drift.settings import settings
from pipeline.drift.sides import Shared, image_side
from pipeline.steps.jit import VARIABLE, jit_environment
from tests.audit.images import SITE, distribution, image

HEADER = "flashinfer/data/include/tile.cuh"


def variable(side: dict[str, str] | None) -> dict[str, object]:
    return {"config": {"Env": [f"{key}={value}" for key, value in (side or {}).items()]}}


def test_a_stage_means_the_value_that_it_sets_and_no_other() -> None:
    meant = {"A": ("1", "v2 sets it")}
    before = variable({"A": "0"})
    (found,) = settings(before, variable({"A": "1"}), meant)
    assert (found.reason, found.to_document()["reason"]) == ("v2 sets it", "v2 sets it")
    for other in ({"A": "2"}, {"A": ""}, None):
        (found,) = settings(before, variable(other), meant)
        assert found.reason == "" and "reason" not in found.to_document()
    label = {"config": {"Labels": {"A": "1"}}}
    assert settings({}, label, meant)[0].reason == ""


def compared(directory: Path, value: str) -> Comparison:
    views = []
    for number, text in enumerate(("32", "16")):
        (directory / str(number)).mkdir()
        view = image(
            directory / str(number), distribution("flashinfer-python", "1", {HEADER: text})
        )
        env = jit_environment(
            {one.entry.path: one.entry.sha256 for one in view.tree if one.entry.has_content}, SITE
        )
        if number and value:
            env = {VARIABLE: value}
        views.append(replace(view, name=text, config={**view.config, **variable(env)}))
    shared = Shared()
    return compare(*(image_side(view.name, view, shared) for view in views))


@pytest.mark.parametrize("value", ["", "/root/.cache/sm121-chain/000000000000", "/tmp"])
def test_the_cache_of_kernels_follows_from_the_sources(tmp_path: Path, value: str) -> None:
    found = compared(tmp_path, value)
    (finding,) = [one for one in found.findings if one.rule == "drift-setting"]
    assert finding.severity == ("warning" if value else "note")
    assert bool(finding.reason) == (not value)

"""Keys: what changes one, and what must not."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

from pipeline.engines.keys import step_key, toolchain
from pipeline.graph import FileInput, Step
from pipeline.steps.program import PROGRAMS, StepOutput

STEP = Step("v1/plan", "stage", {"a": 1}, (FileInput("x.whl", "0" * 64, 7),), ("v0",), 5)
INPUT = StepOutput(Path("/anywhere"), b'{"facts":{},"files":{}}')


def test_key_holds_program_params_files_and_inputs() -> None:
    key = step_key(STEP, [INPUT])
    other_input = StepOutput(Path("/anywhere"), b'{"facts":{"x":1},"files":{}}')
    for step, inputs in (
        (dataclasses.replace(STEP, program="stage-layer"), [INPUT]),
        (dataclasses.replace(STEP, params={"a": 2}), [INPUT]),
        (dataclasses.replace(STEP, files=(FileInput("x.whl", "1" * 64, 7),)), [INPUT]),
        (STEP, [other_input]),
        (STEP, [INPUT, INPUT]),
    ):
        assert step_key(step, inputs) != key


def test_key_knows_no_place_name_order_or_weight() -> None:
    other = dataclasses.replace(STEP, id="other", weight=9, params=dict(STEP.params))
    elsewhere = StepOutput(Path("/elsewhere"), INPUT.data)
    assert step_key(other, [elsewhere]) == step_key(STEP, [INPUT])


def test_every_program_has_a_toolchain_of_its_own() -> None:
    digests = {toolchain(program) for program in PROGRAMS}
    assert len(digests) == len(PROGRAMS)


def test_keys_are_equal_in_another_process(tmp_path: Path) -> None:
    code = "from tests.engines.test_keys import *; print(step_key(STEP, [INPUT]))"
    root = Path(__file__).parents[2]
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == step_key(STEP, [INPUT])

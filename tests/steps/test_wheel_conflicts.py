"""Who leaves a path to another must be named: the layers of the others do not wait to be told."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import Refusal
from pipeline.steps import wheel_conflicts
from pipeline.steps.program import Inputs
from pipeline.wheels.target import Target
from tests.wheels.makewheel import make_wheel


def inputs(tmp_path: Path, *named: str) -> Inputs:
    wheels = {
        name: make_wheel(tmp_path, name, files={"shared.py": name, f"{name}.py": ""})
        for name in ("one", "two", "three")
    }
    known: list[dict[str, Any]] = [
        {
            "rule": "file-conflict",
            "distribution": name,
            "path": "shared.py",
            "owner": "one",
            "why": "so it is",
        }
        for name in named
    ]
    return Inputs(
        {
            "wheels": [
                {"name": n, "version": "1.0", "filename": path.name, "sha256": n}
                for n, path in wheels.items()
            ],
            "target": Target().to_json(),
            "known": known,
        },
        lambda sha256: wheels[sha256],
        (),
    )


def test_all_that_leave_a_path_are_told(tmp_path: Path) -> None:
    facts = wheel_conflicts.run(inputs(tmp_path, "two", "three"), tmp_path).facts
    assert sorted(facts["leave_out"]) == ["three", "two"]


def test_one_that_no_entry_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="not all that have to leave it") as caught:
        wheel_conflicts.run(inputs(tmp_path, "two"), tmp_path)
    assert len(caught.value.details) == 1 and caught.value.details[0].startswith("three: /")

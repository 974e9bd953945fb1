"""Parameters of steps as the values that the parts below take. The writer is pipeline.plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline.audit.expectation import KnownFault
from pipeline.steps.program import Inputs
from pipeline.wheels.layer import WheelFile
from pipeline.wheels.target import Target


def target_of(inputs: Inputs) -> Target:
    """Return the target that `target_params` described."""
    data = inputs.params["target"]
    return Target(**{**data, "glibc": tuple(data["glibc"])})


def known_of(inputs: Inputs) -> list[KnownFault]:
    """Return the exceptions that the lock names."""
    return [KnownFault(**data) for data in inputs.params["known"]]


def wheel_files(
    inputs: Inputs,
    params: Mapping[str, Any],
    leave_out: Mapping[str, Mapping[str, str]] | None = None,
    overrides: Mapping[str, Mapping[str, bytes]] | None = None,
) -> list[WheelFile]:
    """Return the wheels that `params` lists, where they lie here.

    `leave_out` and `overrides` are by distribution name, see `wheels.install.install_wheel`.
    """
    return [
        WheelFile(
            inputs.file(wheel["sha256"]),
            wheel["filename"],
            (leave_out or {}).get(wheel["name"], {}),
            (overrides or {}).get(wheel["name"], {}),
        )
        for wheel in params["wheels"]
    ]

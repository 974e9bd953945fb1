"""Parameters of steps as values; pipeline.plan and pipeline.expectations write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.audit.expectation import (
    Expectation,
    KnownFault,
    LedgerEntry,
    LockedDistribution,
    PatchExpectation,
    Probe,
)
from pipeline.steps.program import Inputs
from pipeline.wheels.layer import WheelFile
from pipeline.wheels.target import Target


def target_of(inputs: Inputs) -> Target:
    """Return the target that `plan.target_params` described."""
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


def expectation_from(
    params: Mapping[str, Any], after: Mapping[tuple[str, str], str]
) -> Expectation:
    """Read what `expectations.expectation_params` wrote.

    `after` maps patch and image path to the hex sha256 that the patch left there, where a build
    knows it and no later stage wrote the file.
    """
    return Expectation(
        environment=params["environment"],
        label=params["label"],
        distributions=tuple(
            LockedDistribution(name, version, (sha256,))
            for name, version, sha256 in params["distributions"]
        ),
        ledger=tuple(
            LedgerEntry(**{**entry, "against": tuple(entry["against"])})
            for entry in params["ledger"]
        ),
        known=tuple(KnownFault(**entry) for entry in params["known"]),
        patches=tuple(
            PatchExpectation(
                name=patch["name"],
                file=patch["file"],
                must_contain=tuple(_probe(item) for item in patch["must_contain"]),
                must_not=tuple(_probe(item) for item in patch["must_not"]),
                post_sha256=after.get((patch["name"], patch["file"]), ""),
            )
            for patch in params["patches"]
        ),
        sites=tuple(params["sites"]),
        extras={name: frozenset(names) for name, names in params["extras"].items()},
    )


def _probe(item: Sequence[Any]) -> Probe:
    text, within, count = item
    return Probe(text.encode("utf-8"), within, count)

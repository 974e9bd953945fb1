"""Which changes count, and how much."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.findings import ERROR, NOTE, WARNING
from pipeline.drift.changes import (
    ADDED,
    BUILD,
    DEBIAN,
    DISTRIBUTION,
    DOWN,
    FILES,
    LIBRARY,
    MOVED,
    ORIGIN,
    REMOVED,
    RENAMED,
    UP,
    Change,
)
from pipeline.drift.comparison import Comparison
from pipeline.drift.findings import findings
from pipeline.drift.images import IMAGE, LOCK, Image
from tests.audit.images import distribution
from tests.drift.compared import compared


def severity(change: Change, before: str = IMAGE, after: str = IMAGE) -> str:
    found = Comparison(Image("a", before), Image("b", after), changes=(change,))
    (finding,) = findings(found).findings
    return finding.severity


@pytest.mark.parametrize(
    ("direction", "plain", "gpu", "debian"),
    [
        (DOWN, ERROR, ERROR, WARNING),
        (MOVED, ERROR, ERROR, WARNING),
        (BUILD, ERROR, ERROR, WARNING),
        (ORIGIN, ERROR, ERROR, WARNING),
        (FILES, ERROR, ERROR, WARNING),
        (UP, NOTE, WARNING, NOTE),
        (RENAMED, NOTE, WARNING, NOTE),
        (REMOVED, NOTE, WARNING, NOTE),
        (ADDED, NOTE, WARNING, NOTE),
    ],
)
def test_a_change_that_nothing_explains(direction: str, plain: str, gpu: str, debian: str) -> None:
    change = Change(DISTRIBUTION, "a", direction, "1", "2", 9)
    assert severity(change) == plain
    assert severity(replace(change, gpu=True)) == gpu
    assert severity(replace(change, family="torch")) == gpu
    assert severity(replace(change, kind=DEBIAN)) == debian
    assert direction != MOVED or severity(replace(change, kind=LIBRARY)) == ERROR
    assert severity(replace(change, gpu=True, reason="v4 installs it from the lock")) == NOTE


@pytest.mark.parametrize("direction", [UP, ADDED, REMOVED, DOWN])
def test_against_a_lock_every_difference_is_an_error(direction: str) -> None:
    change = Change(DISTRIBUTION, "a", direction, "1", "2", 9, reason="v5 installs it")
    assert severity(change, before=LOCK) == severity(change, after=LOCK) == ERROR
    assert severity(change, before=LOCK, after=LOCK) == NOTE  # two plans


def family(version: str, cubin: str) -> dict[str, object]:
    return {
        **distribution("flashinfer-python", version),
        **distribution("flashinfer-cubin", cubin),
    }


def test_a_torn_family_is_an_error_once(tmp_path: Path) -> None:
    whole, torn = family("0.6.17", "0.6.17"), family("0.6.18", "0.6.17")
    found = compared(tmp_path / "a", [whole], [torn])  # type: ignore[list-item]
    (mixed,) = [one for one in found.findings if one.rule == "family-mixed"]
    assert (mixed.severity, mixed.subject) == (ERROR, "flashinfer")
    assert "0.6.17 (flashinfer-cubin) and 0.6.18 (flashinfer-python)" in mixed.message
    for number, (before, after) in enumerate(((torn, torn), (torn, whole), (whole, whole))):
        again = compared(tmp_path / f"b{number}", [before], [after])  # type: ignore[list-item]
        assert not [one for one in again.findings if one.rule == "family-mixed"]

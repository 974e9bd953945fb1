"""The published schemas of a smoke report and of a release's record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pipeline.errors import FaultyFile
from pipeline.release.report import read_report
from tests.release.documents import report, spoiled

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def schema(name: str) -> Draft202012Validator:
    document = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def test_a_report_is_valid() -> None:
    schema("smoke-report-1").validate(report(2))
    nobody = spoiled("ranks.0.run", None)
    nobody["ranks"][0].update(exit_status=None, problem="away cannot be reached", runtime=None)
    schema("smoke-report-1").validate(nobody)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("schema", "sm121-chain/smoke-report/2"),
        ("subject.manifest", "<none>"),
        ("started", "2026-09-30"),
        ("verdict", "maybe"),
        ("extra", 1),
        ("ranks.0.run.probes.0.numbers.capability", "121"),
        ("ranks.0.run.probes.0.thresholds.capability", {}),
        ("ranks.0.run.environment.capability", [12]),
        ("ranks.0.image.fingerprint", ""),
    ],
)
def test_schema_and_reader_say_no_to_the_same(path: str, value: Any) -> None:
    document = spoiled(path, value)
    assert not schema("smoke-report-1").is_valid(document)
    with pytest.raises(FaultyFile):
        read_report(json.dumps(document).encode(), "r")


@pytest.mark.parametrize("path", [*report(), "ranks.0.host", "ranks.0.image", "ranks.0.rank"])
def test_they_want_the_same(path: str) -> None:
    document = spoiled(path, drop=True)
    assert not schema("smoke-report-1").is_valid(document)
    with pytest.raises(FaultyFile):
        read_report(json.dumps(document).encode(), "r")

"""The published schemas: real reports are valid, and what is no report is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from pipeline.audit.report import SCHEMA as AUDIT_SCHEMA
from pipeline.audit.run import audit
from pipeline.drift.comparison import COMPARISON_SCHEMA
from pipeline.drift.matrix import HISTORY_SCHEMA
from pipeline.report.json import render
from tests.audit.images import distribution, expect, image
from tests.drift.compared import compared
from tests.report.samples import comparison, history
from tests.report.test_audit_reports import report

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def schema(name: str) -> Draft202012Validator:
    """Return the validator of a report by the name that stands in its `schema` member."""
    path = SCHEMAS / (name.removeprefix("sm121-chain/").replace("/", "-") + ".json")
    document = json.loads(path.read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def valid(document: dict[str, Any]) -> None:
    """Validate a report by what it says it is, as it is written."""
    written = json.loads(render(document))
    schema(written["schema"]).validate(written)


def test_reports_of_an_audit_are_valid(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    valid(report(tmp_path / "a").to_json())
    origin = json.dumps({"url": "https://x.example/a.git", "vcs_info": {"vcs": "git"}})
    view = image(tmp_path / "b", distribution("a", "1", extra={"direct_url.json": origin}))
    valid(audit(view, expect()).to_json())


@pytest.mark.parametrize("hostile", [False, True])
def test_reports_of_a_drift_are_valid(hostile: bool) -> None:
    valid(comparison(hostile=hostile).to_document())
    valid(history(hostile=hostile).to_document())


def test_a_real_comparison_is_valid(tmp_path: Path) -> None:
    before = distribution("a", "1") | distribution("b", "1", {"b.py": "1"})
    after = distribution("a", "2", requires=["c"]) | distribution("b", "1", {"b.py": "2"})
    valid(compared(tmp_path, [before], [before, after]).to_document())


@pytest.mark.parametrize("name", [AUDIT_SCHEMA, COMPARISON_SCHEMA, HISTORY_SCHEMA])
def test_what_is_no_report_is_refused(tmp_path: Path, name: str) -> None:
    documents = (
        report(tmp_path).to_json(),
        comparison().to_document(),
        history().to_document(),
    )
    document = next(one for one in documents if one["schema"] == name)
    good = json.loads(render(document))
    schema(name).validate(good)
    for change in (
        {"schema": "sm121-chain/audit/1"},
        {"worst": "fatal"},
        {"surprise": 1},
        {"findings": [{"rule": "Not An Id", "severity": "error", "subject": "a", "message": "b"}]},
        {"findings": [{"rule": "a-rule", "severity": "error", "subject": "a"}]},
    ):
        with pytest.raises(ValidationError):
            schema(name).validate({**good, **change})
    for member in good:
        with pytest.raises(ValidationError):
            schema(name).validate({key: value for key, value in good.items() if key != member})

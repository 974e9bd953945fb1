"""Installed versions against pins."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.audit.rules.versions import compare
from pipeline.audit.run import audit
from tests.audit.images import GONE, SITE, distribution, expect, image

CASE_16 = Path(__file__).parents[1] / "fixtures" / "16-version-and-name-spelling" / "pairs.json"
PAIRS: list[dict[str, Any]] = json.loads(CASE_16.read_text(encoding="utf-8"))


@pytest.mark.parametrize("pair", PAIRS, ids=[pair["id"] for pair in PAIRS])
def test_16_version_and_name_spelling(tmp_path: Path, pair: dict[str, str]) -> None:
    name, version = pair["metadata_name"], pair["metadata_version"]
    view = image(tmp_path, distribution(name, version, directory=pair["dirname"]))
    findings = audit(view, expect({pair["lock_name"]: pair["lock_version"]})).findings
    assert (not findings) == (pair["expect"] == "match")
    for finding in findings:
        # both spellings as they stand
        assert f"{name} {version}" in finding.message
        assert f"{pair['lock_name']} {pair['lock_version']}" in finding.message


@pytest.mark.parametrize(
    ("locked", "found", "rule"),
    [
        ("2.13.0+cu130", "2.13.0", "build-changed"),
        ("2.13.0", "2.13.0+cu132", "build-changed"),
        ("0.6.16", "0.6.16+cu130", "build-changed"),
        ("0.1.dev20051+g487ecf187", "0.1.dev20051+g385dce36b", "build-changed"),
        ("2.9.7", "2.30.7", "pin-upgraded"),
        ("0.6.18.dev20260819", "0.6.18", "pin-upgraded"),
        ("2.30.7", "2.29.7", "pin-downgraded"),
        ("2004d", "2005a", "pin-changed"),
        ("2004d", "2004d", None),
        ("13.0.2", "13.0.2.0", None),
    ],
)
def test_what_differs_is_named(locked: str, found: str, rule: str | None) -> None:
    assert compare(locked, found) == rule


def test_14_silent_downgrade_by_layer(tmp_path: Path) -> None:
    pins = {
        "torch": "2.13.0+cu130",
        "nvidia-nccl-cu13": "2.30.7",
        "nvidia-cutlass-dsl": "4.6.2",
        "nvidia-cutlass-dsl-libs-base": "4.6.2",
        "flashinfer-python": "0.6.18.dev20260819",
    }
    first = (
        distribution("torch", "2.13.0+cu130", requires=["nvidia-nccl-cu13==2.29.7"])
        | distribution("nvidia-nccl-cu13", "2.30.7")
        | distribution("nvidia-cutlass-dsl", "4.6.2")
        | distribution("nvidia-cutlass-dsl-libs-base", "4.6.2")
        | distribution("flashinfer-python", "0.6.17")
        | distribution("flashinfer-jit-cache", "0.6.17+cu130")
    )
    gone = [
        "flashinfer_python-0.6.17",
        "nvidia_nccl_cu13-2.30.7",
        "nvidia_cutlass_dsl-4.6.2",
        "flashinfer_jit_cache-0.6.17+cu130",
    ]
    second = (
        dict.fromkeys((f"{SITE}/{name}.dist-info" for name in gone), GONE)
        | distribution("flashinfer-python", "0.6.18.dev20260819")
        | distribution("nvidia-nccl-cu13", "2.29.7")
        | distribution("nvidia-cutlass-dsl", "4.7.0")
        | distribution("pyfluke", "0.3")
    )
    third = {f"{SITE}/nvidia_nccl_cu13-2.29.7.dist-info": GONE} | distribution(
        "nvidia-nccl-cu13", "2.30.7"
    )
    fourth = {
        f"{SITE}/nvidia_cutlass_dsl-4.7.0.dist-info": GONE,
        f"{SITE}/pyfluke-0.3.dist-info": GONE,
    } | distribution("nvidia-cutlass-dsl", "4.6.2")
    view = image(tmp_path, first, second, third, fourth)
    drift = []
    for count in (2, 3, 4):
        part = type(view)("image", view.blobs[:count], view.layers[:count], {})
        report = audit(part, expect(pins))
        drift.append(
            [(one.rule, one.subject, one.layer) for one in report.findings if not one.reason]
        )
    by = view.layers[1].digest
    cutlass = ("pin-upgraded", "nvidia-cutlass-dsl", by)
    fluke = ("not-in-lock", "pyfluke", by)
    mixed = ("family-mixed", "nvidia-cutlass-dsl", by)  # -libs-base stays at 4.6.2
    assert drift == [
        [mixed, fluke, ("pin-downgraded", "nvidia-nccl-cu13", by), cutlass],
        [mixed, fluke, cutlass],
        [],
    ]


def test_a_pin_that_is_not_there_is_missing(tmp_path: Path) -> None:
    report = audit(image(tmp_path, distribution("a", "1")), expect({"a": "1", "B_c": "2"}))
    (finding,) = report.findings
    assert (finding.rule, finding.subject) == ("distribution-missing", "b-c")
    assert report.worst == "error"


def test_pins_are_not_judged_without_a_lock(tmp_path: Path) -> None:
    assert audit(image(tmp_path, distribution("a", "1")), expect()).findings == ()


def test_what_the_parent_had_already_is_said(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1"))
    parent = audit(view, expect()).baseline
    (finding,) = audit(view, expect({}), parent=parent).findings
    assert finding.message == "a 1 is not in the lock, and was in the parent already"

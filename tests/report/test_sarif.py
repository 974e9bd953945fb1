"""SARIF: what the standard and code scanning ask for, stable fingerprints, places to mend."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from pipeline.audit.catalogue import SEVERITIES
from pipeline.audit.findings import ERROR, WARNING, Finding
from pipeline.report import sarif as module
from pipeline.report.judged import AUDIT, Judged
from pipeline.report.judged_drift import judged_comparison, judged_history
from pipeline.report.places import Place, Places
from pipeline.report.rules import RULES
from pipeline.report.sarif import FINGERPRINT, PRIMARY, sarif
from tests.report.samples import comparison, history, judged

ROOT = Path(__file__).parents[2]
PLACES = Places(ROOT, "pins.toml", versions={"nvidia-nccl-cu13": "2.30.7"})
# The members that SARIF 2.1.0 (OASIS, errata 01) requires of the objects that are written here, and
# those that code scanning requires besides; the whole schema is used where it is at hand.
_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"minLength": 1}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
CORE: Mapping[str, Any] = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "uniqueItems": True,
                                        "items": {
                                            "required": [
                                                "id",
                                                "shortDescription",
                                                "fullDescription",
                                                "help",
                                                "defaultConfiguration",
                                            ],
                                            "properties": {
                                                "shortDescription": _TEXT,
                                                "fullDescription": _TEXT,
                                                "help": _TEXT,
                                                "helpUri": {"pattern": "^https://"},
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {"items": {"required": ["executionSuccessful"]}},
                    "results": {
                        "maxItems": 25_000,
                        "items": {
                            "required": ["ruleId", "message", "locations", "partialFingerprints"],
                            "properties": {
                                "level": _LEVEL,
                                "message": _TEXT,
                                "locations": {
                                    "minItems": 1,
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {
                                                            "uri": {"pattern": "^[^/:][^:]*$"}
                                                        },
                                                    },
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {"startLine": {"minimum": 1}},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                                "suppressions": {"items": {"required": ["kind"]}},
                            },
                        },
                    },
                },
            },
        },
    },
}


def every(*, hostile: bool) -> list[Judged]:
    return [
        judged(hostile=hostile),
        judged_comparison(comparison(hostile=hostile)),
        judged_history(history(hostile=hostile)),
    ]


def results(one: Judged, places: Places = PLACES) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = sarif(one, places)["runs"][0]["results"]
    return found


@pytest.mark.parametrize("hostile", [False, True])
def test_it_has_what_the_standard_and_code_scanning_require(hostile: bool) -> None:
    for one in every(hostile=hostile):
        document = sarif(one, PLACES)
        jsonschema.validate(document, CORE)
        run = document["runs"][0]
        rules = run["tool"]["driver"]["rules"]
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            file = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
            assert (ROOT / unquote(file)).is_file()
            assert len(result["message"]["text"]) <= 4000
        text = json.dumps(document, ensure_ascii=False)
        assert text.encode("utf-8") and text.isprintable()


def test_it_fits_the_whole_schema() -> None:
    path = os.environ.get("SARIF_SCHEMA")
    if not path:
        pytest.skip("SARIF_SCHEMA names no copy of OASIS' sarif-schema-2.1.0.json")
    schema = json.loads(Path(path).read_text(encoding="utf-8"))
    for one in (*every(hostile=False), *every(hostile=True)):
        jsonschema.validate(sarif(one, PLACES), schema)


def test_fingerprints_are_one_each_and_stay_when_the_words_change() -> None:
    one = judged()
    prints = [result["partialFingerprints"][FINGERPRINT] for result in results(one)]
    assert len(set(prints)) == len(prints)
    assert [result["partialFingerprints"][PRIMARY] for result in results(one)] == prints
    told = [replace(f, message=f.message + " today", fix="") if f.path else f for f in one.findings]
    again = results(replace(one, findings=told, subject="another image"))
    assert [result["partialFingerprints"][FINGERPRINT] for result in again] == prints
    twice = results(replace(one, findings=[one.findings[0]] * 2))
    assert len({result["partialFingerprints"][FINGERPRINT] for result in twice}) == 2


def test_tolerated_findings_are_suppressed_with_their_reason() -> None:
    found = {result["ruleId"]: result for result in results(judged())}
    assert found["file-modified"]["suppressions"] == [
        {"kind": "external", "justification": "patch nvidia-nccl-cu13"}
    ]
    assert "suppressions" not in found["pin-downgraded"]


def test_what_was_not_asked_is_said() -> None:
    invocation = sarif(judged(), PLACES)["runs"][0]["invocations"][0]
    (said,) = invocation["toolConfigurationNotifications"]
    assert said["associatedRule"]["id"] == "patch-lost" and "no lock" in said["message"]["text"]


def test_more_results_than_code_scanning_takes_are_cut_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MOST", 3)
    run = sarif(judged(), PLACES)["runs"][0]
    assert [result["level"] for result in run["results"]] == ["error"] * 3
    (said,) = run["invocations"][0]["toolExecutionNotifications"]
    assert said["message"]["text"].startswith(f"{len(judged().findings) - 3} results are left out")


def test_help_leads_to_the_page_where_the_repository_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "helpUri" not in sarif(judged(), PLACES)["runs"][0]["tool"]["driver"]["rules"][0]
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://forge.example")
    monkeypatch.setenv("GITHUB_REPOSITORY", "owner/name")
    monkeypatch.setenv("GITHUB_SHA", "f" * 40)
    rule = sarif(judged(), PLACES)["runs"][0]["tool"]["driver"]["rules"][0]
    page = f"https://forge.example/owner/name/blob/{'f' * 40}/docs/findings.md#pins"
    assert rule["helpUri"] == page and page in rule["help"]["markdown"]


LOCK = """lock-version = "1.0"
[tool.sm121-chain]
requirements = ["a"]
[[packages]]
name = "NVIDIA_nccl-cu13"
version = "2.29.7"
[[packages]]
name = "nvidia-nccl-cu13"
version = "2.30.7"
[[packages]]
name = "flashinfer-cubin"
version = "0.6.17"
"""


@pytest.fixture
def project(tmp_path: Path) -> Places:
    (tmp_path / "pins.toml").write_text(LOCK, encoding="utf-8")
    for name in ("stages/v04-nccl.toml", "patches/pdl-gate.toml"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("", encoding="utf-8")
    baseline = "[[accepted]]\nrule = 'a'\n\n[[accepted]]\nrule = 'b'\n"
    (tmp_path / "accepted.toml").write_text(baseline, encoding="utf-8")
    return Places(tmp_path, "pins.toml", versions={"nvidia-nccl-cu13": "2.30.7"})


@pytest.mark.parametrize(
    ("rule", "subject", "layer", "place"),
    [
        ("pin-downgraded", "nvidia-nccl-cu13", "", Place("pins.toml", 8)),
        ("family-mixed", "flashinfer", "", Place("pins.toml", 11)),
        ("patch-lost", "pdl-gate", "", Place("patches/pdl-gate.toml")),
        ("patch-lost", "gone", "", Place("pins.toml", 3)),
        ("wrong-arch", "lib.so", "layer 3, sm121-chain v4: NCCL", Place("stages/v04-nccl.toml")),
        ("wrong-arch", "lib.so", "layer 3, sm121-chain v5: other", Place("pins.toml", 3)),
        ("not-in-lock", "surprise", "", Place("pins.toml", 3)),
    ],
)
def test_a_finding_is_where_it_is_mended(
    project: Places, rule: str, subject: str, layer: str, place: Place
) -> None:
    assert project.of(Finding(rule, ERROR, subject, "words"), layer) == place


def test_a_version_that_is_not_locked_is_at_the_first_entry(project: Places) -> None:
    without = replace(project, versions={})
    finding = Finding("pin-downgraded", ERROR, "nvidia-nccl-cu13", "words")
    assert without.of(finding) == Place("pins.toml", 5)


def test_an_unused_entry_is_where_it_stands(project: Places) -> None:
    finding = Finding(
        "baseline-unused", WARNING, "b", "accepted[1] accepts b", path="accepted.toml"
    )
    assert project.of(finding) == Place("accepted.toml", 4)


def test_a_place_needs_no_project(tmp_path: Path) -> None:
    empty = Places(tmp_path, "pins.toml")
    assert empty.of(Finding("wrong-arch", ERROR, "a", "b")) == Place("pins.toml", 1)
    jsonschema.validate(sarif(Judged(AUDIT, "x", "", []), empty), CORE)


def test_every_rule_is_explained_where_its_page_says() -> None:
    assert set(RULES) == set(SEVERITIES)
    for rule in RULES.values():
        page, _, anchor = rule.page.partition("#")
        sections = (ROOT / page).read_text(encoding="utf-8").split("\n## ")[1:]
        heads = {one.partition("\n")[0].lower().replace(" ", "-"): one for one in sections}
        assert f"**{rule.id}**" in heads[anchor].replace(", ", "**, **"), rule.id

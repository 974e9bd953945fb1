"""The gate says yes to one report, and no, with its reason, to each way of spoiling it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pipeline.release.gate import Reason, judge, judge_documents
from pipeline.release.report import read_report
from tests.release.documents import (
    CREATED,
    FIXTURES,
    NOW,
    WANTED,
    judged,
    rank,
    reasons,
    report,
    spoiled,
)

RUN = "ranks.0.run"
MLA = f"{RUN}.probes.0"


def test_a_report_that_proves_the_image() -> None:
    assert judged(report()) == []
    assert judged(report(2)) == []


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("subject.manifest", "sha256:" + "e" * 64, Reason.OTHER_IMAGE),
        ("subject.fingerprint", "sha256:" + "e" * 64, Reason.OTHER_IMAGE),
        ("subject.manifest", None, Reason.NO_IMAGE),
        ("subject.fingerprint", None, Reason.NO_IMAGE),
        ("ranks", [], Reason.NO_RANK),
        ("ranks.0.runtime", None, Reason.NO_IMAGE),
        ("ranks.0.image.fingerprint", None, Reason.RANKS_DIFFER),
        ("ranks.0.image.fingerprint", "sha256:" + "e" * 64, Reason.RANKS_DIFFER),
        ("ranks.0.problem", "timed out", Reason.RANK_FAILED),
        ("ranks.0.exit_status", 1, Reason.RANK_FAILED),
        ("ranks.0.exit_status", None, Reason.RANK_FAILED),
        ("ranks.0.run", None, Reason.RANK_FAILED),
        (f"{RUN}.problems", ["the JIT build failed"], Reason.RANK_FAILED),
        (f"{RUN}.environment", {}, Reason.NO_GPU),
        (f"{RUN}.environment.gpu", None, Reason.NO_GPU),
        (f"{RUN}.environment.capability", None, Reason.NO_GPU),
        (f"{RUN}.environment.capability", [9, 0], Reason.OTHER_GPU),
        (f"{RUN}.environment.capability", [12, 0], Reason.OTHER_GPU),
        (f"{MLA}.numbers.capability", 90, Reason.OTHER_GPU),
        (f"{RUN}.probes", [], Reason.PROBE_MISSING),
        (f"{MLA}.probe", "nope-mla", Reason.PROBE_MISSING),
        (f"{RUN}.probes.1.probe", "nope_mla", Reason.PROBE_TWICE),
        (f"{MLA}.plant", "scale", Reason.PROBE_PLANTED),
        (f"{MLA}.stand_ins", ["vLLM"], Reason.PROBE_NOT_REAL),
        (f"{MLA}.numbers.plain_worst_head", 0.0061, Reason.LIMIT_BROKEN),
        (f"{MLA}.numbers.graph_frobenius", 0.0041, Reason.LIMIT_BROKEN),
        (f"{RUN}.probes.1.numbers.worst_head", 0.0061, Reason.LIMIT_BROKEN),
        (f"{MLA}.cases.0.numbers.worst_head", 0.0061, Reason.LIMIT_BROKEN),
        (f"{MLA}.thresholds.plain_worst_head", {"min": 0.5}, Reason.LIMIT_BROKEN),
        (f"{RUN}.probes.2.numbers.version", 22907, Reason.LIMIT_BROKEN),
        (f"{MLA}.numbers.plain_worst_head", -0.001, Reason.LIMIT_BROKEN),
        (f"{MLA}.cases.0.numbers.frobenius", -1, Reason.LIMIT_BROKEN),
        (f"{MLA}.cases", [], Reason.NUMBER_MISSING),
        (f"{MLA}.cases.0.numbers", {"frobenius": 0.001}, Reason.NUMBER_MISSING),
        (f"{MLA}.thresholds", {}, Reason.NUMBER_MISSING),
        (f"{MLA}.numbers", {"capability": 121}, Reason.NUMBER_MISSING),
        (f"{MLA}.thresholds.other", {"max": 1}, Reason.NUMBER_MISSING),
        ("finished", NOW + 1, Reason.FROM_THE_FUTURE),
        ("ranks.0.finished", NOW + 1, Reason.FROM_THE_FUTURE),
        ("started", CREATED - 1, Reason.OLDER_THAN_IMAGE),
        ("ranks.0.started", CREATED - 1, Reason.OLDER_THAN_IMAGE),
        ("finished", 1789999980, Reason.TIMES),
        ("ranks.0.started", 1789999980, Reason.TIMES),
        ("ranks.0.finished", 1790000090, Reason.TIMES),
        (f"{RUN}.finished", 1789999999, Reason.TIMES),
        (f"{RUN}.started", 1789999000, Reason.TIMES),
        (f"{RUN}.finished", 1790009000, Reason.TIMES),
        ("schema", "sm121-chain/smoke-report/2", Reason.UNREADABLE),
    ],
)
def test_each_way_of_proving_nothing(path: str, value: Any, reason: Reason) -> None:
    assert reason in reasons(spoiled(path, value))


@pytest.mark.parametrize(
    "status",
    ["failed", "skipped", "error", "timed-out", "missing", "unknown", "not-run", "ok", "Passed"],
)
def test_only_passed_is_passed(status: str) -> None:
    assert reasons(spoiled(f"{MLA}.status", status)) == {Reason.PROBE_FAILED}


def test_a_threshold_of_the_report_that_is_wider_than_the_gates_own_is_of_no_use() -> None:
    document = spoiled(f"{MLA}.numbers.plain_worst_head", 0.02)
    document["ranks"][0]["run"]["probes"][0]["thresholds"]["plain_worst_head"] = {"max": 1}
    assert reasons(document) == {Reason.LIMIT_BROKEN}


def test_a_narrower_one_counts() -> None:
    assert reasons(spoiled(f"{MLA}.thresholds.plain_worst_head", {"max": 0.003})) == {
        Reason.LIMIT_BROKEN
    }


def test_a_verdict_is_never_believed() -> None:
    document = spoiled(f"{MLA}.status", "failed")
    assert document["verdict"] == document["ranks"][0]["run"]["verdict"] == "passed"
    assert reasons(document) == {Reason.PROBE_FAILED}
    # Nor is a bad one: what was proven is proven.
    assert judged(spoiled("verdict", "failed")) == []


def test_what_the_report_says_was_required_decides_nothing() -> None:
    assert judged(spoiled("required", [])) == []
    more = replace(WANTED, probes=(*WANTED.probes, "pdl_gate"))
    assert reasons(report(), more) == {Reason.PROBE_MISSING}


def test_a_stage_that_requires_nothing_passes_nothing() -> None:
    assert reasons(report(), replace(WANTED, probes=())) == {Reason.NOTHING_REQUIRED}


def test_no_report_is_no_proof() -> None:
    assert [one.reason for one in judge_documents({}, WANTED, NOW)] == [Reason.NO_REPORT]


def test_a_probe_that_is_not_required_decides_nothing() -> None:
    document = report()
    extra = {**document["ranks"][0]["run"]["probes"][0], "probe": "server", "status": "failed"}
    document["ranks"][0]["run"]["probes"].append(extra)
    assert judged(document) == []


def test_an_image_that_does_not_say_when_it_was_made() -> None:
    assert reasons(report(), replace(WANTED, created=None)) == {Reason.OLDER_THAN_IMAGE}


def test_an_image_whose_fingerprint_is_unknown_equals_nothing() -> None:
    document = spoiled("subject.fingerprint", None)
    document["ranks"][0]["image"]["fingerprint"] = None
    found = reasons(document, replace(WANTED, fingerprint=""))
    assert found == {Reason.NO_IMAGE, Reason.RANKS_DIFFER}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("ranks.1.image.fingerprint", None),
        ("ranks.1.run.environment.gpu", "NVIDIA GB11"),
        ("ranks.1.run.environment.nccl", 22907),
        ("ranks.1.run.environment.torch", None),
        ("ranks.1.run.environment.distributions.vllm", "0.30.1"),
        ("ranks.1.run.environment.capability", [12, 0]),
    ],
)
def test_ranks_must_agree(path: str, value: Any) -> None:
    assert Reason.RANKS_DIFFER in reasons(spoiled(path, value, ranks=2))


def test_ranks_may_have_other_drivers_and_names() -> None:
    document = spoiled("ranks.1.run.environment.driver", "590.1", ranks=2)
    document["ranks"][1]["run"]["environment"]["host"] = "another"
    assert judged(document) == []


@pytest.mark.parametrize(("key", "value"), [("rank", 0), ("host", "gb10-0")])
def test_one_rank_is_not_two(key: str, value: Any) -> None:
    assert reasons(spoiled(f"ranks.1.{key}", value, ranks=2)) == {Reason.RANK_TWICE}


@pytest.mark.parametrize(
    ("path", "index"), [("boot_id", "00000000-0000-4000-8000-000000000000"), ("gpus", 0)]
)
def test_two_names_of_one_machine_are_one_rank(path: str, index: Any) -> None:
    document = report(2)
    first, second = (one["run"]["environment"] for one in document["ranks"])
    second[path] = first[path] if path == "gpus" else index.upper()
    (found,) = judged(document)
    assert found.reason is Reason.RANK_TWICE
    assert "is the machine of rank 0 (gb10-0)" in found.problem


def test_of_several_ranks_each_says_which_machine_it_is() -> None:
    document = report(2)
    document["ranks"][1]["run"]["environment"].update(boot_id=None, gpus=[])
    (found,) = judged(document)
    assert found.reason is Reason.RANK_TWICE and "rank 1 (gb10-1)" in found.where
    document = report(1)
    document["ranks"][0]["run"]["environment"].update(boot_id=None, gpus=[])
    assert judged(document) == []


def test_reports_that_are_judged_together_ran_the_same_probes() -> None:
    second = {**report(), "ranks": [rank(1)], "probes": "sha256:" + "1" * 64}
    files = {str(n): json.dumps(one).encode() for n, one in enumerate((report(), second))}
    (found,) = judge_documents(files, WANTED, NOW)
    assert found.reason is Reason.RANKS_DIFFER and "the files of its probes" in found.problem


def test_one_bad_rank_of_two_is_enough() -> None:
    document = spoiled("ranks.1.run.probes.0.status", "skipped", ranks=2)
    (found,) = judged(document)
    assert found.reason is Reason.PROBE_FAILED and "rank 1 (gb10-1): nope_mla" in found.where


def test_several_reports_are_judged_together() -> None:
    second = {**report(), "ranks": [rank(1)]}
    files = {"a": json.dumps(report()).encode(), "b": json.dumps(second).encode()}
    assert judge_documents(files, WANTED, NOW) == []
    files["b"] = json.dumps(report()).encode()
    assert {one.reason for one in judge_documents(files, WANTED, NOW)} == {Reason.RANK_TWICE}
    files["b"] = b"{"
    assert {one.reason for one in judge_documents(files, WANTED, NOW)} == {Reason.UNREADABLE}


def test_every_reason_is_told_at_once() -> None:
    document = spoiled(f"{MLA}.status", "failed", ranks=2)
    document["subject"]["manifest"] = "sha256:" + "e" * 64
    document["ranks"][1]["run"]["environment"]["capability"] = [9, 0]
    document["finished"] = NOW + 100
    assert {
        Reason.PROBE_FAILED,
        Reason.OTHER_IMAGE,
        Reason.OTHER_GPU,
        Reason.FROM_THE_FUTURE,
    } <= reasons(document)


def test_the_drivers_own_sample_that_failed() -> None:
    document = report()
    document["ranks"][0]["run"] = json.loads((FIXTURES / "failed.json").read_bytes())
    told = [str(one) for one in judged(document)]
    assert any("nope_mla: failed: plain_worst_head is" in one for one in told)
    assert any("fa2_rows: timed-out" in one for one in told)


def test_a_report_of_no_container_passes_no_gate() -> None:
    document = spoiled("ranks.0.runtime", None)
    document["subject"] = {"name": "rootfs:/", "manifest": None, "fingerprint": None}
    document["ranks"][0]["image"] = dict.fromkeys(("name", "config", "manifest", "fingerprint"))
    assert Reason.NO_IMAGE in reasons(document)


def test_the_gate_is_pure() -> None:
    data = json.dumps(report()).encode()
    read = read_report(data, "r")
    assert judge([read], WANTED, NOW) == judge([read], WANTED, NOW) == []


def test_reasons_have_a_test_each() -> None:
    """Every kind of no stands in this file as one that was seen."""
    from pathlib import Path

    text = Path(__file__).read_text(encoding="utf-8")
    assert [one.name for one in Reason if f"Reason.{one.name}" not in text] == []

"""The reader of reports: strict, all faults at once, and nothing hostile gets further than it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from pipeline.errors import FaultyFile
from pipeline.release.document import MOST_BYTES
from pipeline.release.gate import judge_documents
from pipeline.release.report import read_report
from pipeline.release.run import parse_run
from tests.release.documents import NOW, WANTED, report, spoiled


def faults(document: Any) -> list[str]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    with pytest.raises(FaultyFile) as caught:
        read_report(data, "r.json")
    return [str(fault) for fault in caught.value.faults]


def test_what_is_read_is_what_was_written() -> None:
    document = report(2)
    read = read_report(json.dumps(document).encode(), "r")
    assert read.to_json(passed=True) == document


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b'{"subject": {"kind": "manifest", "dig', "not JSON"),
        (b"\xff{}", "not UTF-8 at byte 0"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
        (b'{"a": {"b": 1, "b": 1}}', "'b' stands twice"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "1e999 is no finite number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b"[" * 100 + b"]" * 100, "nested too deeply"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b" " * (MOST_BYTES + 1), "more than"),
        (b'{"a": 1} {"b": 2}', "not JSON"),
        (b'{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"\\udfff": 1}', "half of a surrogate pair"),
    ],
)
def test_hostile_json(data: bytes, text: str) -> None:
    (fault,) = faults(data)
    assert text in fault


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ("subject", "x", "subject: a table is needed"),
        ("subject.manifest", "sha256:ABC", "subject.manifest: 'sha256:ABC' is not a digest"),
        ("subject.manifest", "<none>", "is not a digest"),
        ("subject.extra", 1, "subject.extra: unknown key"),
        ("extra", 1, "extra: unknown key"),
        ("started", "2026-09-30T10:00:00Z", "started: an integer is needed"),
        ("started", True, "started: an integer is needed"),
        ("started", -1, "started: -1 is below 0"),
        ("started", 1.5, "started: an integer is needed"),
        ("finished", 2**70, "is above"),
        ("verdict", "maybe", "verdict: 'maybe' is neither"),
        ("capability", "12", "capability: '12' is not a capability"),
        ("ranks", {}, "ranks: an array is needed"),
        ("ranks.0", 7, "ranks[0]: a table is needed"),
        ("ranks.0.image.fingerprint", "", "ranks[0].image.fingerprint: empty"),
        ("ranks.0.exit_status", "0", "ranks[0].exit_status: an integer is needed"),
        ("ranks.0.run", [], "ranks[0].run: a table is needed"),
        ("ranks.0.run.schema", "x", "ranks[0].run.schema: 'x' is not"),
        ("ranks.0.run.problems", "none", "ranks[0].run.problems: an array is needed"),
        ("ranks.0.run.environment.capability", "12.1", "capability: two integers are needed"),
        ("ranks.0.run.environment.capability", [12, True], "capability: two integers are needed"),
        ("ranks.0.run.probes.0.numbers.worst_head", "NaN", "worst_head: a number is needed"),
        ("ranks.0.run.probes.0.numbers.worst_head", None, "worst_head: a number is needed"),
        ("ranks.0.run.probes.0.numbers.worst_head", True, "worst_head: a number is needed"),
        ("ranks.0.run.probes.0.numbers.worst_head", 10**30, "is larger than any measurement"),
        ("ranks.0.run.probes.0.numbers", [], "numbers: a table is needed"),
        ("ranks.0.run.probes.0.thresholds.worst_head", {}, "must hold max, min, equals"),
        ("ranks.0.run.probes.0.thresholds.worst_head", {"most": 1}, "must hold max, min, equals"),
        ("ranks.0.run.probes.0.thresholds.worst_head", {"max": "1"}, "max: a number is needed"),
        ("ranks.0.run.probes.0.seconds", "3", "seconds: a number is needed"),
        ("ranks.0.run.probes.0.cases", [{"case": "a", "numbers": {"x": "y"}}], "x: a number"),
        ("ranks.0.run.probes.0.status", ["passed"], "status: a string is needed"),
    ],
)
def test_faults_of_shape(path: str, value: Any, text: str) -> None:
    assert any(text in fault for fault in faults(spoiled(path, value)))


@pytest.mark.parametrize(
    "path",
    ["schema", "subject", "capability", "required", "probes", "started", "finished", "ranks",
     "verdict", "ranks.0.rank", "ranks.0.host", "ranks.0.image", "ranks.0.run.probes",
     "ranks.0.run.started", "ranks.0.run.environment", "ranks.0.run.probes.0.probe",
     "ranks.0.run.probes.0.status", "ranks.0.run.probes.0.numbers"],
)  # fmt: skip
def test_what_is_missing(path: str) -> None:
    assert any("missing" in fault for fault in faults(spoiled(path, drop=True)))


def test_a_report_of_very_many_ranks_ends_soon() -> None:
    """Judging takes time by the length of a report, not by its square."""
    document = spoiled("ranks.0.run", None)
    one = document["ranks"][0]
    document["ranks"] = [{**one, "rank": n, "host": f"h{n}"} for n in range(8_000)]
    data = json.dumps(document).encode()
    assert len(data) < MOST_BYTES
    began = time.process_time()
    assert len(judge_documents({"r": data}, WANTED, NOW)) == 8_000
    assert time.process_time() - began < 10


def test_all_faults_at_once() -> None:
    document = spoiled("started", "x")
    document["ranks"][0]["run"]["probes"][0]["numbers"] = 1
    document["ranks"][0]["run"]["probes"][1]["seconds"] = "x"
    document["unknown"] = 1
    assert len(faults(document)) == 4


def test_what_the_probes_say_beyond_their_contract_is_kept() -> None:
    document = spoiled("ranks.0.run.environment.more", {"a": 1})
    read = read_report(json.dumps(document).encode(), "r")
    assert read.to_json(passed=True) == document


def test_the_output_of_the_driver_is_one_document() -> None:
    data = json.dumps(report()["ranks"][0]["run"]).encode()
    assert parse_run(data + b"\n").capability == (12, 1)
    for bad in (b"hello\n" + data, data + data, data[:-20], b"", b"[]", data[:-1] + b',"x":NaN}'):
        with pytest.raises(FaultyFile):
            parse_run(bad)

"""JUnit XML: what two parsers read of it."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import junitparser
import pytest

from pipeline.report.judged import Judged
from pipeline.report.judged_drift import judged_comparison, judged_history
from pipeline.report.junit import junit
from pipeline.report.plain import printable
from pipeline.report.rules import RULES
from tests.report.samples import HOSTILE, comparison, history, judged

ASKED = [rule.id for rule in RULES.values() if "audit" in rule.verbs]


def suite(one: Judged, threshold: str = "error") -> junitparser.TestSuite:
    (found,) = junitparser.JUnitXml.fromstring(junit([one], threshold=threshold).encode())
    return found


def test_a_rule_is_a_case() -> None:
    found = suite(judged())
    assert [case.name for case in found] == ASKED
    assert (found.tests, found.failures, found.errors, found.skipped) == (len(ASKED), 3, 0, 1)
    failed = {
        case.name: case.result[0]
        for case in found
        if case.result and isinstance(case.result[0], junitparser.Failure)
    }
    assert sorted(failed) == ["file-missing", "pin-downgraded", "requirement-unsatisfied"]
    assert failed["file-missing"].message == "nvidia-nccl-cu13: 0.py is not there (and 8 more)"
    assert failed["pin-downgraded"].type == "error"
    assert "  next: install nvidia-nccl-cu13 last" in failed["pin-downgraded"].text.splitlines()


@pytest.mark.parametrize(
    ("threshold", "failures"), [("never", 0), ("error", 3), ("warning", 4), ("note", 5)]
)
def test_the_threshold_decides_what_fails(threshold: str, failures: int) -> None:
    assert suite(judged(), threshold).failures == failures


def test_what_does_not_count_is_told_all_the_same() -> None:
    cases = {case.name: case for case in suite(judged())}
    assert "tolerated: patch nvidia-nccl-cu13" in cases["file-modified"].system_out
    assert cases["file-modified"].is_passed
    assert cases["patch-lost"].is_skipped


def test_a_drift_is_a_suite_too() -> None:
    for one in (judged_comparison(comparison()), judged_history(history())):
        names = [case.name for case in suite(one)]
        assert "drift-down" in names and "pin-downgraded" not in names


def test_totals_are_those_of_all_suites() -> None:
    root = ElementTree.fromstring(junit([judged(), judged()], threshold="error"))
    assert root.get("tests") == str(2 * len(ASKED)) and root.get("failures") == "6"


@pytest.mark.parametrize(
    "one",
    [
        judged(hostile=True),
        judged_comparison(comparison(hostile=True)),
        judged_history(history(hostile=True)),
    ],
    ids=["audit", "comparison", "history"],
)
def test_hostile_names_stay_text(one: Judged) -> None:
    text = junit([one], threshold="note")
    root = ElementTree.fromstring(text.encode("utf-8"))
    tags = {element.tag for element in root.iter()}
    assert tags <= {"testsuites", "testsuite", "testcase", "failure", "skipped", "system-out"}
    seen = "".join(root.itertext()) + "".join(v for e in root.iter() for v in e.attrib.values())
    assert printable(HOSTILE).replace("\ufffe", "\\ufffe") in seen
    assert not [c for c in text if c != "\n" and not c.isprintable()] and "\ufffe" not in text


def test_the_same_findings_are_the_same_bytes() -> None:
    one = judged()
    assert junit([one], threshold="error") == junit([replace(one)], threshold="error")

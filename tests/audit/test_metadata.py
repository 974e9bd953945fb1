"""Case 15: more than one dist-info for a project, and one that only looks so."""

from pathlib import Path

import pytest

from pipeline.audit.run import audit
from tests.audit.images import SITE, Content, Link, distribution, expect, image

VENV = "opt/venv/lib/python3.12/site-packages"
CASE_15: dict[str, tuple[list[dict[str, Content]], str, list[str]]] = {
    "a-leftover-without-metadata": (
        [
            distribution("torch", "1.13.1+cu116")
            | {f"{SITE}/torch-1.12.1+cu116.dist-info/REQUESTED": ""}
        ],
        "broken-metadata",
        ["torch-1.12.1+cu116.dist-info", "no METADATA"],
    ),
    "b-two-complete": (
        [distribution("pip", "7.1.2"), distribution("pip", "8.1.2")],
        "duplicate-dist",
        ["7.1.2", "8.1.2"],
    ),
    "c-two-spellings": (
        [
            distribution("jaraco.functools", "4.1.0", directory="jaraco.functools-4.1.0")
            | distribution("jaraco-functools", "4.2.1")
        ],
        "duplicate-dist",
        ["4.1.0", "4.2.1"],
    ),
    "d-lib64-link": (
        [distribution("numpy", "2.3.4", site=VENV) | {"opt/venv/lib64": Link("lib")}],
        "",
        [],
    ),
    "e-empty-metadata": (
        [distribution("einops", "0.8.1", metadata="")],
        "broken-metadata",
        ["einops-0.8.1.dist-info"],
    ),
    "f-name-and-metadata-disagree": (
        [distribution("triton", "3.7.1", directory="triton-3.6.0")],
        "broken-metadata",
        ["triton-3.6.0.dist-info", "3.7.1"],
    ),
}


@pytest.mark.parametrize("case", CASE_15)
def test_15_two_dist_infos(tmp_path: Path, case: str) -> None:
    layers, rule, words = CASE_15[case]
    report = audit(image(tmp_path, *layers), expect())
    assert [one.rule for one in report.findings] == ([rule] if rule else [])
    for finding in report.findings:
        assert finding.severity == "error"
        assert all(word in finding.message for word in words)
        assert finding.layer == report.layers[-1].digest


def test_15_no_copy_is_chosen_to_be_held_against_the_lock(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("pip", "7.1.2") | distribution("pip", "8.1.2"))
    (finding,) = audit(view, expect({"pip": "8.1.2"})).findings
    assert finding.rule == "duplicate-dist"
    assert finding.message.endswith("the lock has 8.1.2")


def test_15_a_broken_distribution_is_not_missing_besides(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("triton", "3.7.1", directory="triton-3.6.0"))
    (finding,) = audit(view, expect({"triton": "3.7.1"})).findings
    assert (finding.rule, finding.subject) == ("broken-metadata", "triton")


def test_sites_that_are_not_there_are_said_once(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1", site=VENV))
    report = audit(view, expect({"a": "1", "b": "1"}, sites=(SITE,)))
    assert [(one.rule, one.severity, one.subject) for one in report.findings] == [
        ("site-missing", "error", SITE),
        ("site-not-judged", "note", VENV),
    ]
    assert VENV in report.findings[0].message


def test_other_sites_are_not_skipped_in_silence(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1") | distribution("b", "1", site=VENV))
    (finding,) = audit(view, expect({"a": "1"}, sites=(f"/{SITE}",))).findings
    assert (finding.rule, finding.subject) == ("site-not-judged", VENV)


def test_a_copy_in_another_directory_is_shadowed(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("pip", "7.1.2") | distribution("pip", "8.1.2", site=VENV))
    (finding,) = audit(view, expect()).findings
    assert (finding.rule, finding.severity) == ("shadowed-dist", "warning")

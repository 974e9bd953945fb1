"""Requirements that are not met: intended, inherited, new, or none of the target's business."""

from pathlib import Path

import pytest

from pipeline.audit.expectation import LedgerEntry
from pipeline.audit.requirements import parse_requirement
from pipeline.audit.run import audit
from tests.audit.images import Content, distribution, expect, image

TORCH = distribution("torch", "2.13.0", requires=["nvidia-nccl-cu13==2.29.7"])
NCCL = distribution("nvidia-nccl-cu13", "2.30.7")
LEDGER = LedgerEntry(
    "nvidia-nccl-cu13==2.30.7", ("torch 2.13.0 wants ==2.29.7",), "SM121 needs it", "v4"
)


def kinds(tmp_path: Path, *parts: dict[str, Content], **expected: object) -> list[str]:
    contents: dict[str, Content] = {}
    for part in parts:
        contents |= part
    report = audit(image(tmp_path, contents), expect(**expected))  # type: ignore[arg-type]
    return [f"{one.dependant} {one.requirement} {one.kind}" for one in report.unsatisfied]


def test_without_a_ledger_it_is_new_and_an_error(tmp_path: Path) -> None:
    report = audit(image(tmp_path, TORCH | NCCL), expect(ledger=()))
    (finding,) = report.findings
    assert (finding.rule, finding.severity) == ("requirement-unsatisfied", "error")
    assert finding.message == "wants nvidia-nccl-cu13==2.29.7, 2.30.7 is there (new)"
    assert report.to_json()["requirements"]["new"] == [
        {"dependant": "torch", "requirement": "nvidia-nccl-cu13==2.29.7", "found": "2.30.7"}
    ]


def test_what_the_ledger_names_is_intended_and_a_note(tmp_path: Path) -> None:
    report = audit(image(tmp_path, TORCH | NCCL), expect(ledger=(LEDGER,)))
    (finding,) = report.findings
    assert (finding.severity, finding.reason) == ("note", "SM121 needs it")


@pytest.mark.parametrize(
    ("requirement", "against"),
    [
        ("nvidia-nccl-cu13==2.30.7", "vllm 0.30.0 wants ==2.29.7"),  # another dependant
        ("nvidia-nccl-cu13==2.30.7", "torch 2.12.0 wants ==2.28.9"),  # another wish
        ("nvidia-nccl-cu13==2.31.0", "torch 2.13.0 wants ==2.29.7"),  # another version is held
        ("nvidia-nccl-cu13==2.30.7", "torch 2.13.0 wants what it likes"),
    ],
)
def test_what_the_ledger_does_not_name_is_new(
    tmp_path: Path, requirement: str, against: str
) -> None:
    ledger = (LedgerEntry(requirement, (against,), "why"),)
    assert kinds(tmp_path, TORCH, NCCL, ledger=ledger) == ["torch nvidia-nccl-cu13==2.29.7 new"]


def test_what_the_parent_does_not_meet_either_is_inherited(tmp_path: Path) -> None:
    view = image(tmp_path, TORCH | NCCL)
    parent = audit(view, expect(ledger=())).baseline
    (finding,) = audit(view, expect(ledger=()), parent=parent).findings
    assert (finding.severity, finding.message[-11:]) == ("warning", "(inherited)")
    other = distribution("nvidia-nccl-cu13", "2.31.0")
    (finding,) = audit(image(tmp_path, TORCH | other), expect(ledger=()), parent=parent).findings
    assert finding.severity == "error"


def test_a_lock_without_a_ledger_means_its_pins(tmp_path: Path) -> None:
    pins = {"torch": "2.13.0", "nvidia-nccl-cu13": "2.30.7"}
    assert kinds(tmp_path, TORCH, NCCL, pins=pins) == ["torch nvidia-nccl-cu13==2.29.7 intended"]
    pins["nvidia-nccl-cu13"] = "2.29.7"
    assert kinds(tmp_path, TORCH, NCCL, pins=pins) == ["torch nvidia-nccl-cu13==2.29.7 new"]


def test_markers_are_the_targets(tmp_path: Path) -> None:
    wants = distribution(
        "a",
        "1",
        requires=[
            "x ; platform_machine == 'x86_64'",
            "y ; python_version < '3.12'",
            "z ; platform_machine == 'aarch64' and python_full_version == '3.12.3'",
        ],
    )
    assert [line.split(" ;")[0] for line in kinds(tmp_path, wants)] == ["a z"]


def test_extras_count_when_somebody_asks_for_them(tmp_path: Path) -> None:
    dsl = distribution("dsl", "4.6.2", requires=["libs-cu13; extra == 'cu13'"])
    assert kinds(tmp_path, dsl) == []
    asks = distribution("quack", "1", requires=["dsl[cu13]"])
    wanted = ["dsl libs-cu13; extra == 'cu13' new"]
    assert kinds(tmp_path, dsl, asks) == wanted
    assert kinds(tmp_path, dsl, extras={"dsl": frozenset({"cu13"})}) == wanted
    ledger = (LedgerEntry("dsl[cu13]==4.6.2", (), "why"),)
    assert kinds(tmp_path, dsl, ledger=ledger) == wanted


def test_a_pre_release_that_is_there_meets_its_requirement(tmp_path: Path) -> None:
    wants = distribution("a", "1", requires=["b>=0.6.18.dev1"])
    assert kinds(tmp_path, wants, distribution("b", "0.6.18.dev20260819")) == []


def test_a_version_outside_of_pep_440_meets_only_what_asks_for_any(tmp_path: Path) -> None:
    wants = distribution("a", "1", requires=["old", "old>=1"])
    assert kinds(tmp_path, wants, distribution("old", "2004d")) == ["a old>=1 new"]


def test_a_text_that_is_no_requirement_is_said(tmp_path: Path) -> None:
    report = audit(image(tmp_path, distribution("a", "1", requires=["b>=1.0.*"])), expect())
    assert [one.rule for one in report.findings] == ["requirement-unreadable"]


def test_what_is_unreadable_hides_nothing(tmp_path: Path) -> None:
    wants = distribution("a", "1", requires=["b>=1.0.*", "b; python_version ~= 'x'", "gone"])
    report = audit(image(tmp_path, wants), expect())
    unreadable = " is no requirement (PEP 508) and is not judged"
    assert [(one.rule, one.message) for one in report.findings] == [
        ("requirement-unsatisfied", "wants gone, it is not there (new)"),
        ("requirement-unreadable", "\"b; python_version ~= 'x'\"" + unreadable),
        ("requirement-unreadable", "'b>=1.0.*'" + unreadable),
    ]


def test_the_longest_text_that_is_read() -> None:
    assert parse_requirement("a" + " " * 4095) is not None
    assert parse_requirement("a" + " " * 4096) is None


def test_extras_of_several_dependants_add_up(tmp_path: Path) -> None:
    dsl = distribution("dsl", "1", requires=["x; extra == 'ex'", "y; extra == 'why'"])
    asks = distribution("p", "1", requires=["dsl[ex]"]) | distribution(
        "q", "1", requires=["dsl[why]"]
    )
    assert kinds(tmp_path, dsl, asks) == ["dsl x; extra == 'ex' new", "dsl y; extra == 'why' new"]


def test_an_extra_may_ask_for_another_distributions_extra(tmp_path: Path) -> None:
    chain = (
        distribution("a", "1", requires=["b[x]"])
        | distribution("b", "1", requires=["c[y]; extra == 'x'"])
        | distribution("c", "1", requires=["d[z]; extra == 'y'"])
        | distribution("d", "1", requires=["e; extra == 'z'"])
    )
    assert kinds(tmp_path, chain) == ["d e; extra == 'z' new"]


def test_any_entry_of_the_ledger_may_be_the_one(tmp_path: Path) -> None:
    other = LedgerEntry("torch==2.13.0", ("vllm 1 wants ==2",), "other")
    report = audit(image(tmp_path, TORCH | NCCL), expect(ledger=(other, LEDGER)))
    assert [one.reason for one in report.findings] == ["SM121 needs it"]

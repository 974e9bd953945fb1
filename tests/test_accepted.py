"""The baseline file: what it accepts, until when, and every way in which it is refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from pipeline.accepted import UNUSED, propose, read_baseline, the_day
from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.errors import FaultyFile, UsageError
from pipeline.report.plain import printable
from tests.report.samples import HOSTILE

TODAY = date(2026, 12, 1)
DOWN = Finding("pin-downgraded", ERROR, "nccl", "nccl 1 is older", path="site/nccl.dist-info")
MISSING = Finding("file-missing", ERROR, "vllm", "a.py is not there", path="site/a.py")
WANTS = Finding("requirement-unsatisfied", ERROR, "torch", "wants nccl==2 (new)")
KNOWN = Finding("file-conflict", NOTE, "vllm", "is also b's", path="b.py", reason="the lock says")
ALL = (MISSING, DOWN, WANTS, KNOWN)
VERSIONS = {"nccl": ["1"], "vllm": ["0.30.0"], "torch": ["2.13.0"]}


def written(tmp_path: Path, *entries: str) -> Path:
    path = tmp_path / "accepted.toml"
    path.write_text("".join(f"[[accepted]]\n{entry}\n" for entry in entries), encoding="utf-8")
    return path


def entry(rule: str, subject: str, more: str = "", *, until: str = "2026-12-31") -> str:
    return f'rule = "{rule}"\nsubject = "{subject}"\n{more}\nreason = "seen"\nuntil = {until}\n'


def apply(tmp_path: Path, *entries: str) -> tuple[Finding, ...]:
    return read_baseline(written(tmp_path, *entries)).apply(ALL, VERSIONS, TODAY)


@pytest.mark.parametrize(
    "more",
    ["", 'path = "site/nccl.dist-info"', 'version = "1"', 'message = "nccl 1 is older"'],
)
def test_a_finding_that_fits_every_member_is_a_note(tmp_path: Path, more: str) -> None:
    found = {one.rule: one for one in apply(tmp_path, entry("pin-downgraded", "nccl", more))}
    assert found["pin-downgraded"].severity == NOTE
    assert found["pin-downgraded"].reason == "accepted until 2026-12-31: seen"
    assert found["file-missing"] == MISSING and UNUSED not in found


@pytest.mark.parametrize(
    ("rule", "subject", "more"),
    [
        ("pin-upgraded", "nccl", ""),
        ("pin-downgraded", "other", ""),
        ("pin-downgraded", "nccl", 'path = "site/other"'),
        ("pin-downgraded", "nccl", 'version = "2"'),
        ("pin-downgraded", "nccl", 'message = "older"'),
        ("file-conflict", "vllm", ""),  # the lock tolerates it already
    ],
)
def test_an_entry_that_matches_nothing_is_reported(
    tmp_path: Path, rule: str, subject: str, more: str
) -> None:
    found = apply(tmp_path, entry(rule, subject, more))
    assert set(ALL) < set(found)
    (unused,) = set(found) - set(ALL)
    assert (unused.rule, unused.severity, unused.subject) == (UNUSED, WARNING, subject)
    assert "accepted[0]" in unused.message and rule in unused.message
    assert unused.path == str(tmp_path / "accepted.toml")


@pytest.mark.parametrize(
    ("until", "severity"), [("2026-11-30", ERROR), ("2026-12-01", NOTE), ("2026-12-02", NOTE)]
)
def test_after_its_last_day_a_finding_counts_again(
    tmp_path: Path, until: str, severity: str
) -> None:
    found = {one.rule: one for one in apply(tmp_path, entry("file-missing", "vllm", until=until))}
    missing = found["file-missing"]
    assert missing.severity == severity and UNUSED not in found
    if severity == ERROR:
        assert missing.reason == "" and "(accepted until 2026-11-30: seen)" in missing.message


def test_of_two_entries_the_later_day_counts(tmp_path: Path) -> None:
    old = entry("file-missing", "vllm", until="2020-01-01")
    found = {one.rule: one for one in apply(tmp_path, old, entry("file-missing", "vllm"))}
    assert found["file-missing"].severity == NOTE and UNUSED not in found


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'rule = "a-rule"\nsubject = "a"\nreason = ""\nuntil = ""\n',
        'rule = "A rule"\nreason = "b"\nuntil = "2026-12-31"\n',
        'rule = "c-rule"\nsubject = "c"\nuntil = 2026-12-31T00:00:00Z\nowner = "d"\n',
        'rule = "d-rule"\nsubject = 7\nreason = "d"\n',
    )
    path.write_text(f"known = 1\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
    with pytest.raises(FaultyFile) as caught:
        read_baseline(path)
    faults = {fault.where: fault.problem for fault in caught.value.faults}
    assert faults["accepted[0].reason"] == faults["accepted[0].until"] == "empty"
    assert "is not a rule id" in faults["accepted[1].rule"]
    assert faults["accepted[1].subject"] == faults["accepted[2].reason"] == "missing"
    assert "without quotes" in faults["accepted[1].until"]
    assert "a day such as" in faults["accepted[2].until"]
    assert faults["accepted[2].owner"] == faults["known"] == "unknown key"
    assert "a string is needed" in faults["accepted[3].subject"]
    assert faults["accepted[3].until"] == "missing"


def test_an_entry_stands_once(tmp_path: Path) -> None:
    with pytest.raises(FaultyFile) as caught:
        read_baseline(written(tmp_path, entry("a-rule", "a"), entry("a-rule", "a")))
    assert str(caught.value.faults[0]) == "accepted[1]: stands twice"


@pytest.mark.parametrize("text", ["[[accepted]", "accepted = 1", "accepted = [1]"])
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FaultyFile):
        read_baseline(path)


def test_without_a_file_the_next_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_baseline(tmp_path / "none.toml")
    assert "--write-baseline" in str(caught.value.hint)


def test_a_proposal_is_refused_until_it_is_complete_and_then_fits(tmp_path: Path) -> None:
    path = tmp_path / "accepted.toml"
    path.write_text(propose(ALL, VERSIONS, None), encoding="utf-8")
    with pytest.raises(FaultyFile) as caught:
        read_baseline(path)
    assert len(caught.value.faults) == 6  # a reason and a day for each of three
    text = path.read_text(encoding="utf-8")
    text = text.replace('reason = ""', 'reason = "seen"').replace(
        'until = ""', "until = 2027-01-01"
    )
    path.write_text(text, encoding="utf-8")
    found = read_baseline(path).apply(ALL, VERSIONS, TODAY)
    assert all(one.reason for one in found) and len(found) == len(ALL)
    other = Finding(WANTS.rule, ERROR, WANTS.subject, "wants triton==3 (new)")
    assert other in read_baseline(path).apply((*ALL, other), VERSIONS, TODAY)


def test_a_proposal_keeps_what_is_accepted_and_drops_what_is_gone(tmp_path: Path) -> None:
    path = written(tmp_path, entry("pin-downgraded", "nccl"), entry("pin-downgraded", "gone"))
    text = propose(ALL, VERSIONS, read_baseline(path))
    assert text.count("[[accepted]]") == 3 and text.count('reason = "seen"') == 1
    assert "until = 2026-12-31" in text and "gone" not in text


def test_hostile_names_can_be_accepted(tmp_path: Path) -> None:
    finding = Finding("file-missing", ERROR, HOSTILE, f"{HOSTILE} is gone", path=f"a/{HOSTILE}")
    bare = Finding("file-missing", ERROR, HOSTILE, f"{HOSTILE} is gone")
    text = propose([finding, bare], {}, None)
    assert all(line.isprintable() for line in text.split("\n"))
    text = text.replace('reason = ""', 'reason = "seen"').replace(
        'until = ""', "until = 2027-01-01"
    )
    path = tmp_path / "accepted.toml"
    path.write_text(text, encoding="utf-8")
    baseline = read_baseline(path)
    assert [one.subject for one in baseline.entries] == [printable(HOSTILE)] * 2
    assert [one.severity for one in baseline.apply([finding, bare], {}, TODAY)] == [NOTE, NOTE]


def test_today_is_said_or_of_the_epoch_or_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    assert the_day("2027-03-01") == date(2027, 3, 1)
    assert the_day("") == date(2026, 1, 1)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert the_day("") > date(2026, 1, 1)


@pytest.mark.parametrize("epoch", ["soon", "9" * 30])
def test_a_day_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, epoch: str) -> None:
    with pytest.raises(UsageError, match="--today"):
        the_day("tomorrow")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(UsageError, match="SOURCE_DATE_EPOCH"):
        the_day("")

"""What `audit` and `drift` share: formats, output, threshold, baseline file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline.cli import main
from tests.audit.images import distribution
from tests.oci.layouts import Layout, tagged, tar

Capture = pytest.CaptureFixture[str]
LOCK = """lock-version = "1.0"
created-by = "test"
[[packages]]
name = "a"
version = "2"
wheels = [{ path = "a-2-py3-none-any.whl", hashes = { sha256 = "ab" } }]
"""
AUDIT = ["audit", "oci:one", "--against", "lock.toml"]
DRIFT = ["drift", "oci:two", "oci:one"]
BOTH = pytest.mark.parametrize("call", [AUDIT, DRIFT], ids=["audit", "drift"])


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images, a lock that wants the other one's version, and a cache of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    for name, version in (("one", "1"), ("two", "2")):
        files = distribution("a", version)
        layout = Layout(tmp_path / name)
        held = {path: data for path, data in files.items() if isinstance(data, bytes)}
        layout.finish(tagged(layout.image([tar(held)]), "v1"))
    (tmp_path / "lock.toml").write_text(LOCK, encoding="utf-8")
    return tmp_path


def rule(call: list[str]) -> str:
    return "pin-downgraded" if call is AUDIT else "drift-down"


@BOTH
def test_every_format_says_the_same(call: list[str], capsys: Capture) -> None:
    shown = {}
    for name in ("text", "json", "sarif", "junit", "markdown", "html"):
        assert main([*call, "--format", name]) == 1
        shown[name], err = capsys.readouterr()
        assert err == "" and shown[name].endswith("\n") and "a" in shown[name]
    assert rule(call) in [one["rule"] for one in json.loads(shown["json"])["findings"]]
    results = json.loads(shown["sarif"])["runs"][0]["results"]
    assert rule(call) in [one["ruleId"] for one in results]
    failed = ElementTree.fromstring(shown["junit"]).iterfind(".//testcase[failure]")
    assert rule(call) in [case.get("name") for case in failed]
    assert f"<code>{rule(call)}</code>" in shown["markdown"] and "❌" in shown["markdown"]
    assert rule(call) in shown["html"] and "✗ fails" in shown["html"]


@BOTH
def test_an_output_is_whole_and_replaces_what_was_there(
    call: list[str], place: Path, capsys: Capture
) -> None:
    target = place / "report.json"
    target.write_text("old", encoding="utf-8")
    (place / "link.json").symlink_to("report.json")
    assert main([*call, "--format", "json", "--output", "link.json"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads(target.read_text(encoding="utf-8"))["worst"] == "error"
    assert (place / "link.json").is_symlink()
    assert sorted(path.name for path in place.glob("*.json*")) == ["link.json", "report.json"]
    assert main([*call, "-q", "--format", "json", "--output", os.devnull]) == 1


@BOTH
def test_an_output_that_cannot_be_written_is_outside_trouble(
    call: list[str], place: Path, capsys: Capture
) -> None:
    assert main([*call, "--output", "none/report"]) == 3
    assert "none/report" in capsys.readouterr().err
    assert not (place / "none").exists()


@BOTH
def test_the_threshold_decides_the_exit_status(call: list[str], capsys: Capture) -> None:
    assert main([*call, "--fail-on", "never"]) == 0
    assert main([*call, "--fail-on", "error"]) == 1
    assert main([*call, "--fail-on", "note"]) == 1
    capsys.readouterr()
    clean = ["drift", "oci:one", "oci:one", "--fail-on", "note"]
    assert main(clean) == 0


def accept(place: Path, call: list[str], *, until: str) -> None:
    proposal = place / "accepted.toml"
    assert main([*call, "-q", "--write-baseline", "accepted.toml"]) == 1
    text = proposal.read_text(encoding="utf-8")
    assert f'rule = "{rule(call)}"' in text
    text = text.replace('reason = ""', 'reason = "seen"')
    proposal.write_text(text.replace('until = ""', f"until = {until}"), encoding="utf-8")


@BOTH
def test_what_is_accepted_does_not_fail_until_its_day(
    call: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    accept(place, call, until="2027-03-01")
    with_baseline = [*call, "--baseline", "accepted.toml"]
    assert main([*with_baseline, "--today", "2027-03-01"]) == 0
    assert "tolerated" in capsys.readouterr().out
    assert main([*with_baseline, "--today", "2027-03-02"]) == 1
    assert "(accepted until 2027-03-01: seen)" in capsys.readouterr().out
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    assert main(with_baseline) == 0
    assert main(call) == 1


@BOTH
def test_an_entry_for_nothing_is_a_warning(call: list[str], place: Path, capsys: Capture) -> None:
    accept(place, call, until="2027-03-01")
    path = place / "accepted.toml"
    text = path.read_text(encoding="utf-8").replace('subject = "a"', 'subject = "b"')
    path.write_text(text, encoding="utf-8")
    assert main([*call, "--baseline", "accepted.toml", "--today", "2027-01-01"]) == 1
    assert "baseline-unused" in capsys.readouterr().out


@BOTH
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--baseline", "none.toml"], "no such file"),
        (["--baseline", "lock.toml"], "lock-version: unknown key"),
        (["--today", "2027-03-01"], "--today is for the days of a baseline"),
        (["--baseline", "empty.toml", "--today", "soon"], "is no day"),
    ],
)
def test_a_baseline_that_is_none_is_usage(
    call: list[str], more: list[str], words: str, place: Path, capsys: Capture
) -> None:
    (place / "empty.toml").write_text("", encoding="utf-8")
    assert main([*call, *more]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err and "next:" in err


@BOTH
@pytest.mark.parametrize("option", ["--output", "--write-baseline"])
def test_a_directory_is_no_place_for_a_report(
    call: list[str], option: str, place: Path, capsys: Capture
) -> None:
    before = sorted(place.rglob("*"))
    for name, status in ((".", 2), ("none/report", 3), ("lock.toml/report", 3)):
        assert main([*call, option, name]) == status
        out, err = capsys.readouterr()
        assert out == "" and err.count("error: ") == 1 and "next: " in err
    assert sorted(place.rglob("*")) == before  # nothing was read either: there is no cache

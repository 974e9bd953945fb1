"""The README shows what the program prints, and calls what CI calls."""

from pathlib import Path

import pytest

from pipeline.cli import VERBS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_lines_of_the_build_are_the_golden_ones() -> None:
    golden = (ROOT / "tests" / "golden" / "build.txt").read_text(encoding="utf-8")
    assert f"```text\n{golden}```\n" in README


def test_plan_is_the_golden_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["show"]) == 0
    shown = capsys.readouterr().out
    assert shown == (ROOT / "tests" / "golden" / "show.txt").read_text(encoding="utf-8")
    assert "\n".join(line.rstrip() for line in shown.splitlines()[:10]) in README


def test_ci_runs_the_readmes_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line[2:] for line in README.splitlines() if line.startswith("$ python3 -m venv")]
    assert len(commands) == 2
    assert all(any(part.startswith(line) for part in script.splitlines()) for line in commands)


def test_every_verb_is_in_the_readme() -> None:
    for verb in VERBS:
        assert f"`{verb}" in README

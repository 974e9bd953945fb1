"""The README shows what the program prints, and calls what CI calls."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_lines_of_the_build_are_the_golden_ones() -> None:
    golden = (ROOT / "tests" / "golden" / "build.txt").read_text(encoding="utf-8")
    assert f"```text\n{golden}```\n" in README


def test_ci_runs_the_readmes_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = [line[2:] for line in README.splitlines() if line.startswith("$ python3 -m venv")]
    assert len(commands) == 2
    assert any(line in script.splitlines() for line in commands)


def test_every_verb_is_in_the_readme() -> None:
    from pipeline.cli import VERBS

    for verb in VERBS:
        assert f"`{verb}" in README

"""The workflows that a fork copies: they parse, ask for the least, and call what is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.cli import VERBS, _parser

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# What each job may do at most; a job that is new must be thought about here.
PERMISSIONS = {
    ("release", "build"): {"contents": "read", "packages": "write"},
    ("release", "smoke"): {"contents": "read", "packages": "read"},
    ("release", "tag"): {"contents": "read", "packages": "write"},
    ("drift", "drift"): {"contents": "read"},
    ("drift", "comment"): {"pull-requests": "write"},
}


def load(file: Path) -> dict[Any, Any]:
    return dict(yaml.safe_load(file.read_text(encoding="utf-8")))


def steps(workflow: dict[Any, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, job in workflow["jobs"].items():
        for step in job["steps"]:
            yield name, step


def calls(text: str) -> Iterator[list[str]]:
    """Every `nox -s VERB -- ARGS` of a script; variables are what they are called."""
    for line in text.splitlines():
        if found := re.search(r"\.venv/bin/nox -s (.*?)(?: \| | \|\| |$)", line):
            plain = re.sub(r"\$\{?(\w+)\}?", r"\1", found[1])
            yield shlex.split(plain)


def test_there_are_two() -> None:
    assert [file.stem for file in FILES] == ["drift", "release"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_call_is_one_that_a_verb_takes(file: Path) -> None:
    found = 0
    for _, step in steps(load(file)):
        for verb, *words in calls(step.get("run", "")):
            assert verb in VERBS, verb
            assert words[0] == "--"
            _parser(verb).parse_args([verb, *words[1:]])  # exits with 2 where it does not
            found += 1
    assert found >= 3


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_call_that_is_wrong_would_be_seen(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace("--to ", "--too-much ")
    ((verb, *words), *_) = [call for line in text.splitlines() for call in calls(line)]
    assert verb == "build"
    with pytest.raises(SystemExit):
        _parser(verb).parse_args([verb, *words[1:]])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_least_privileges(file: Path) -> None:
    workflow = load(file)
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["permissions"] == PERMISSIONS[file.stem, name]
        assert job["timeout-minutes"] <= 60
    # `on` is true for a reader of YAML 1.1.
    assert "pull_request_target" not in workflow.get("on", workflow.get(True))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_verb_that_fails_before_a_pipe_fails_the_step(file: Path) -> None:
    """GitHub's bash has pipefail only where it is asked for by name."""
    assert load(file)["defaults"] == {"run": {"shell": "bash"}}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_actions_are_pinned(file: Path) -> None:
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert lines
    for line in lines:
        assert re.search(r"uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line
    for _, step in steps(load(file)):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_text_that_somebody_typed_is_part_of_a_script(file: Path) -> None:
    for _, step in steps(load(file)):
        assert "${{" not in step.get("run", "")


def test_only_the_smoke_job_runs_on_a_machine_of_ones_own() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "release.yml")["jobs"]
    assert [name for name, job in jobs.items() if "self-hosted" in job["runs-on"]] == ["smoke"]
    assert jobs["smoke"]["environment"] == "gb10" and jobs["tag"]["needs"] == ["build", "smoke"]


def test_what_runs_a_pull_requests_code_may_write_nothing() -> None:
    jobs = load(ROOT / ".github" / "workflows" / "drift.yml")["jobs"]
    assert set(jobs["drift"]["permissions"].values()) == {"read"}
    scripts = [step.get("run", "") for step in jobs["comment"]["steps"]]
    assert not any("nox" in script or "python" in script for script in scripts)
    assert not any("checkout" in step.get("uses", "") for step in jobs["comment"]["steps"])

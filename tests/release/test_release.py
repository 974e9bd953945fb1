"""A whole release on the loopback: docker-registry, a stand-in for the GPU hosts, skopeo."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from tests.line import Line, make_line
from tests.oci.registry.real import Real, needs_registry, needs_skopeo, run_registry
from tests.release.standin import StandIn, make_standin

pytestmark = needs_registry
ROOT = Path(__file__).parents[2]
POINTS = 20
STAGE, TAG = "v4", "sm121-v4"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with run_registry(tmp_path_factory.mktemp("release-registry")) as running:
        yield running


@pytest.fixture
def line(tmp_path: Path) -> Line:
    made = make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")
    made.edit("stages/v04-tile.toml", "patches =", 'smoke = ["nope_mla", "fa2_rows"]\npatches =')
    return made


@pytest.fixture
def standin(line: Line, tmp_path: Path) -> StandIn:
    layout = line.root / "releases" / TAG / "dist"
    return make_standin(tmp_path / "standin", line.root, layout)


@pytest.fixture
def repository(registry: Real, tmp_path: Path) -> str:
    """A repository that no other test has."""
    return f"{registry.host}/{tmp_path.name.replace('_', '-')}"


def start(line: Line, standin: StandIn, repository: str, *args: str) -> subprocess.Popen[str]:
    env = {
        **os.environ,
        "PATH": standin.path,
        "PYTHONPATH": str(ROOT),
        "SM121_CHAIN_CACHE": str(line.cache),
        "DOCKER_CONFIG": str(line.root / "docker"),
    }
    env.pop("DOCKER_HOST", None)
    return subprocess.Popen(
        [sys.executable, "-m", "pipeline", "release", STAGE, repository, "--offline", *args],
        cwd=line.root, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip


def release(
    line: Line, standin: StandIn, repository: str, *args: str
) -> subprocess.CompletedProcess[str]:
    process = start(line, standin, repository, *args)
    out, err = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def tags(repository: str) -> list[str]:
    """The registry's own list of tags."""
    return sorted(Repository(parse_reference(repository)).tags())


def summary(err: str) -> dict[str, str]:
    """Step -> what it came to, of the table at the end."""
    lines = [line.split() for line in err.splitlines() if line[:8].strip() in STEPS]
    return {words[0]: words[1] for words in lines if words[1:2] != ["…"]}


STEPS = ("build", "audit", "push", "smoke", "tag", "verify")


def folder(line: Line, digest: str) -> Path:
    return line.root / "releases" / TAG / digest[7:19]


@needs_skopeo
def test_from_the_lock_to_a_tag(
    line: Line, standin: StandIn, repository: str, tmp_path: Path
) -> None:
    done = release(line, standin, repository, "--host", "rank0", "--host", "rank1")
    assert done.returncode == 0, done.stderr
    *lines, pull = done.stdout.splitlines()
    digest = pull.partition("@")[2]
    immutable = f"{TAG}-{digest[7:19]}"
    assert pull == f"docker pull {repository}@{digest}"
    assert lines == [f"{repository}:{immutable} {digest}", f"{repository}:{TAG} {digest}"]
    assert tags(repository) == sorted([immutable, TAG])
    assert summary(done.stderr) == dict.fromkeys(STEPS, "done")
    assert "rank0: probing" in done.stderr and "rank1: probing" in done.stderr
    assert standin.left == []

    # Somebody else's tool pulls it, and it is what was built.
    copy = tmp_path / "copy"
    pulled = ["skopeo", "copy", "--src-tls-verify=false", f"docker://{repository}:{TAG}"]
    subprocess.run([*pulled, f"oci:{copy}:x"], check=True, capture_output=True)
    index = json.loads((copy / "index.json").read_bytes())
    assert [one["digest"] for one in index["manifests"]] == [digest]

    record = json.loads((folder(line, digest) / "record.json").read_bytes())
    assert record["tagged"] and record["tags"] == [immutable, TAG] and record["drift"] is None
    assert [one["host"] for one in record["smoke"][0]["ranks"]] == ["rank0", "rank1"]
    text = (folder(line, digest) / "record.md").read_text(encoding="utf-8")
    for wanted in (digest, pull, "NVIDIA GB10", "worst_head 0.00312", "| v4 | `tile` |", "vllm"):
        assert wanted in text

    # All of it again: every step finds what is there, and no probe is run anew.
    standin.forget()
    again = release(line, standin, repository, "--host", "rank0", "--host", "rank1")
    assert again.returncode == 0 and again.stdout == done.stdout
    assert summary(again.stderr)["smoke"] == "found" and standin.calls() == []
    # Unless that is asked for, or other hosts are.
    asked = release(
        line, standin, repository, "--host", "rank0", "--host", "rank1", "--smoke-again"
    )
    assert asked.returncode == 0 and len(standin.calls("run")) == 2
    standin.forget()
    other = release(line, standin, repository, "--host", "rank0")
    assert other.returncode == 0 and len(standin.calls("run")) == 1
    # Or the probes are others.
    standin.forget()
    (line.root / "smoke" / "more.py").write_text("", encoding="utf-8")
    assert release(line, standin, repository, "--host", "rank0").returncode == 0
    assert len(standin.calls("run")) == 1


def test_a_probe_that_fails_is_no_release(line: Line, standin: StandIn, repository: str) -> None:
    failing = {"probes": {"set": {"probes.0.numbers.plain_worst_head": 0.09}}}
    standin.behave(here=failing)
    done = release(line, standin, repository)
    assert done.returncode == 1
    assert "limit-broken: rank 0 (here): nope_mla: plain_worst_head is 0.09" in done.stderr
    assert summary(done.stderr) == {
        "build": "done", "audit": "done", "push": "done", "smoke": "failed", "tag": "not",
        "verify": "not",
    }  # fmt: skip
    assert tags(repository) == [] and done.stdout == ""
    # The report that failed is not used again, and is replaced by one that passes.
    standin.behave()
    done = release(line, standin, repository)
    assert done.returncode == 0 and summary(done.stderr)["smoke"] == "done"


def test_a_stage_without_probes_is_refused_at_once(
    line: Line, standin: StandIn, repository: str
) -> None:
    line.edit("stages/v04-tile.toml", 'smoke = ["nope_mla", "fa2_rows"]\n', "")
    done = release(line, standin, repository)
    assert done.returncode == 2 and "requires no probe" in done.stderr
    assert not (line.root / "releases").exists()


def test_a_tag_that_would_have_to_move_is_told_before_the_push(
    line: Line, standin: StandIn, repository: str
) -> None:
    first = release(line, standin, repository)
    assert first.returncode == 0, first.stderr
    old = first.stdout.splitlines()[-1].partition("@")[2]
    line.edit("patches/tile.toml", "TILE 16", "TILE 8")
    standin.forget()
    done = release(line, standin, repository)
    assert done.returncode == 1 and f"--move --from {old}" in done.stderr
    assert standin.calls("run") == [] and len(tags(repository)) == 2

    done = release(line, standin, repository, "--move", "--from", old)
    assert done.returncode == 0, done.stderr
    new = done.stdout.splitlines()[-1].partition("@")[2]
    assert tags(repository) == sorted([TAG, f"{TAG}-{old[7:19]}", f"{TAG}-{new[7:19]}"])
    record = json.loads((folder(line, new) / "record.json").read_bytes())
    assert record["previous"] == old and record["drift"]["against"] == old
    text = (folder(line, new) / "record.md").read_text(encoding="utf-8")
    assert f"Against `{old}`" in text and "Not compared" not in text


def kill(process: subprocess.Popen[str], after: float) -> bool:
    """Kill a run and all that it started, after some seconds; whether it had not ended by then."""
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def test_kill_9_at_random_points(line: Line, standin: StandIn, registry: Real) -> None:
    """Each is finished by the next run, and no tag is ever there without a report that passes."""
    for number in ("", "0"):  # the second one is like those to be killed: all is built
        shutil.rmtree(line.root / "releases", ignore_errors=True)
        began = time.monotonic()
        assert release(line, standin, f"{registry.host}/kill{number}").returncode == 0
        full = time.monotonic() - began
    points = random.Random(10)
    killed = number = 0
    reached: set[str] = set()
    while killed < POINTS:
        number += 1
        assert number < 4 * POINTS
        repository = f"{registry.host}/kill{number}"
        shutil.rmtree(line.root / "releases")
        process = start(line, standin, repository)
        killed += kill(process, full * points.uniform(0.1, 0.98))
        there = tags(repository)
        reports = list((line.root / "releases").glob(f"{TAG}/*/smoke.json"))
        assert not there or [json.loads(one.read_bytes())["verdict"] for one in reports] == [
            "passed"
        ]
        assert not list((line.root / "releases").glob(f"{TAG}/*/record.json")) or reports
        reached.add(f"{len(there)} tags, {len(reports)} reports")
        done = release(line, standin, repository)
        assert done.returncode == 0, done.stderr
        digest = done.stdout.splitlines()[-1].partition("@")[2]
        assert tags(repository) == sorted([TAG, f"{TAG}-{digest[7:19]}"])
        record = json.loads((folder(line, digest) / "record.json").read_bytes())
        assert record["tagged"] is True
    assert len(reached) > 1, reached
    end = time.monotonic() + 10
    while standin.left and time.monotonic() < end:
        time.sleep(0.05)
    assert standin.left == []


def test_two_releases_at_once(line: Line, standin: StandIn, repository: str) -> None:
    """On one machine the second one waits, and then finds everything done."""
    standin.behave(here={"probes": {"hang": 1}})
    both = [start(line, standin, repository) for _ in range(2)]
    done = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], done
    assert done[0][0] == done[1][0] and len(tags(repository)) == 2
    assert "waiting for another release" in done[0][1] + done[1][1]
    assert sorted(summary(err)["smoke"] for _, err in done) == ["done", "found"]
    assert len(standin.calls("run")) == 1


def test_two_releases_at_once_from_two_places(
    line: Line, standin: StandIn, repository: str, tmp_path: Path
) -> None:
    """Two checkouts with unlike patches: one gets the moving tag, the other one is told."""
    (tmp_path / "b").mkdir()
    other = make_line(tmp_path / "b" / "project", tmp_path / "cache", tmp_path / "b" / "scratch")
    shutil.copytree(line.root / "stages", other.root / "stages", dirs_exist_ok=True)
    other.edit("patches/tile.toml", "TILE 16", "TILE 8")
    theirs = make_standin(
        tmp_path / "b" / "standin", other.root, other.root / "releases" / TAG / "dist"
    )
    both = [start(line, standin, repository), start(other, theirs, repository)]
    done = [process.communicate(timeout=300) for process in both]
    statuses = sorted(process.returncode for process in both)
    assert statuses == [0, 1], [err for _, err in done]
    winner = next(
        out for process, (out, _) in zip(both, done, strict=True) if not process.returncode
    )
    loser = next(err for process, (_, err) in zip(both, done, strict=True) if process.returncode)
    digest = winner.splitlines()[-1].partition("@")[2]
    assert "already" in loser or "somebody else" in loser
    repositories = Repository(parse_reference(repository))
    assert repositories.digest_of(TAG) == digest
    for tag in tags(repository):  # an immutable one names what its name says
        assert tag == TAG or repositories.digest_of(tag)[7:19] == tag.rpartition("-")[2]

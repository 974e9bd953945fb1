"""The verb `smoke` with a runtime that the test owns: what it runs, believes and leaves behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.hosts import container
from pipeline.oci.reading import find_image
from pipeline.oci.references import parse_reference
from pipeline.release.probefiles import read_probes
from tests.line import Line, built_line, entered
from tests.oci.registry.server import Registry, serve
from tests.release.standin import StandIn, make_standin, use
from tests.release.test_schemas import schema

ROOT = Path(__file__).parents[2]
REQUIRED = '["nope_mla", "nccl_library"]'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A line with its dist/, made once."""
    scratch = tmp_path_factory.mktemp("smoke")
    return built_line(
        scratch, ("stages/v01-model.toml", "patches =", f"smoke = {REQUIRED}\npatches =")
    )


@pytest.fixture
def line(built: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    return entered(built, tmp_path, monkeypatch)


@pytest.fixture
def standin(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    made = make_standin(tmp_path / "standin", line.root, line.root / "dist")
    use(made, monkeypatch)
    monkeypatch.setattr(container, "_GRACE", 1)
    return made


@pytest.fixture
def image(line: Line, registry: Registry, capsys: pytest.CaptureFixture[str]) -> str:
    """The pushed v1, as a subject."""
    assert main(["push", "v1", f"{registry.host}/chain", "-q"]) == 0
    return "docker://" + capsys.readouterr().out.splitlines()[-1].removeprefix("docker pull ")


def smoke(
    capsys: pytest.CaptureFixture[str], subject: str, *args: str
) -> tuple[int, dict[str, Any], str]:
    """Run the verb; return status, report and stderr."""
    status = main(["smoke", subject, *args])
    out, err = capsys.readouterr()
    report = json.loads(out) if out else {}
    if report:
        schema("smoke-report-1").validate(report)
    return status, report, err


def problem(report: dict[str, Any], rank: int = 0) -> str:
    return str(report["ranks"][rank]["problem"])


def test_an_image_that_passes(
    line: Line, image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report, err = smoke(capsys, image)
    assert status == 0, err
    built, _ = find_image(line.root / "dist", "sm121-v1")
    assert report["subject"] == {
        "name": image, "manifest": built.digest, "fingerprint": built.fingerprint,
    }  # fmt: skip
    (rank,) = report["ranks"]
    assert rank["image"]["fingerprint"] == built.fingerprint
    assert rank["run"]["environment"]["gpu"] == "NVIDIA GB10"
    assert rank["run"]["environment"]["libraries"]["nccl"]
    assert [one["probe"] for one in rank["run"]["probes"]] == ["nope_mla", "nccl_library"]
    assert report["required"] == ["nope_mla", "nccl_library"]
    # Live output, by host, without what would move a cursor.
    assert "here: probing  [31m--require nope_mla,nccl_library --capability 12.1" in err
    assert "passed: nope_mla, nccl_library on 1 rank" in err
    assert standin.left == []


def test_how_the_container_is_run(
    image: str, standin: StandIn, capsys: pytest.CaptureFixture[str], line: Line
) -> None:
    assert smoke(capsys, image)[0] == 0
    ((_, program, *words),) = standin.calls("run")
    built, _ = find_image(line.root / "dist", "sm121-v1")
    assert program == "docker"
    for wanted in ("--rm", "--interactive", "--read-only", "--gpus=all", "--network=none",
                   "--pull=never", "--entrypoint=python3"):  # fmt: skip
        assert wanted in words
    # By the id that was inspected, with nothing of this machine mounted.
    assert words[words.index("-c") - 1] == built.config_descriptor.digest
    assert not any(word.startswith(("-v", "--volume", "--mount")) for word in words)
    assert [call[2] for call in standin.calls() if call[2] != "version"] == [
        "image", "pull", "image", "run", "rm",
    ]  # fmt: skip
    (pull,) = standin.calls("pull")
    assert parse_reference(pull[-1]).digest == built.digest
    # What is there is not pulled again.
    standin.forget()
    assert smoke(capsys, image)[0] == 0
    assert standin.calls("pull") == []


def test_a_tag_is_run_by_its_digest(
    registry: Registry, image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = image.partition("@")[2]
    registry.tags["moving"] = digest
    status, report, _ = smoke(capsys, f"docker://{registry.host}/chain:moving")
    assert status == 0 and report["subject"]["manifest"] == digest
    assert standin.calls("pull")[0][-1].endswith("@" + digest)


def test_a_stage_must_be_on_the_host_already(
    line: Line, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report, err = smoke(capsys, "v1")
    assert status == 1 and "no image on this machine has the content" in problem(report)
    assert standin.calls("run") == []
    (standin.folder / "loaded").touch()
    status, report, err = smoke(capsys, "v1")
    assert status == 0, err
    assert report["subject"]["manifest"] == find_image(line.root / "dist", "sm121-v1")[0].digest


def test_ranks_side_by_side(
    image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    standin.behave(a={"probes": {"hang": 2}}, b={"probes": {"hang": 2}})
    status, report, err = smoke(capsys, image, "--host", "a", "--host", "b", "--host", "here")
    assert status == 0, err
    a, b, _ = report["ranks"]
    assert a["started"] < b["finished"] and b["started"] < a["finished"]
    assert [(one["rank"], one["host"]) for one in report["ranks"]] == [
        (0, "a"), (1, "b"), (2, "here"),
    ]  # fmt: skip
    assert {call[0] for call in standin.calls("run")} == {"a", "b", "here"}
    assert "a: probing" in err and "b: probing" in err


def test_a_daemon_elsewhere(
    image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """ssh://HOST is this machine's docker with DOCKER_HOST set, and needs no shell there."""
    status, _, err = smoke(capsys, image, "--host", "ssh://me@gb10:22")
    assert status == 0, err
    assert {call[0] for call in standin.calls()} == {"ssh://me@gb10:22"}


def test_docker_host_of_the_environment_counts(
    image: str, standin: StandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("DOCKER_HOST", "ssh://gb10")
    assert smoke(capsys, image)[0] == 0
    assert {call[0] for call in standin.calls()} == {"ssh://gb10"}


def test_another_runtime(image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]) -> None:
    status, report, _ = smoke(capsys, image, "--runtime", "podman")
    assert status == 0 and report["ranks"][0]["runtime"] == "podman"
    assert {call[1] for call in standin.calls()} == {"podman"}


@pytest.mark.parametrize(
    ("here", "text"),
    [
        ({"version": 1}, "no container runtime answers"),
        ({"pull": "denied: requested access"}, "docker on this machine does not pull"),
        ({"inspect": "gone"}, "docker image on this machine: Error: No such image"),
        ({"inspect": "other"}, "nothing was run"),
        ({"inspect": "nothing"}, "fingerprint unknown: nothing was run"),
        ({"shows": "[]"}, "shows its images in an unknown form"),
        ({"shows": "[1]"}, "shows its images in an unknown form"),
        (
            {"shows": '[{"Os": "\\ud800", "Architecture": "x", "RootFS": {"Layers": [1]}}]'},
            "nothing was run",
        ),
        ({"shows": "[" * 100_000}, "shows its images in an unknown form"),
        (
            {"run": 125},
            "exit status 125, no result: there is none; the last it said: docker: could",
        ),
        ({"probes": {"say": ""}}, "exit status 0, no result: there is none"),
        ({"probes": {"say": "all good\n"}}, "no result: 1 faults, first not JSON"),
        ({"probes": {"say": "{}"}}, "no result: "),
        ({"probes": {"say": '{"a": NaN}'}}, "NaN is no number"),
        ({"probes": {"cut": 500}}, "not JSON"),
        ({"probes": {"flood": 20_000_000}}, "more than 8388608 bytes of output"),
    ],
)
def test_a_rank_with_a_problem(
    here: dict[str, Any], text: str, image: str, standin: StandIn,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    standin.behave(here=here)
    status, report, err = smoke(capsys, image)
    assert status == 1
    assert text in problem(report) and report["verdict"] == "failed"
    assert "rank-failed" in err and "Traceback" not in err
    assert report["ranks"][0]["run"] is None and standin.left == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"environment.capability": [9, 0], "environment.gpu": "NVIDIA H200"}, "other-gpu"),
        ({"environment.capability": None, "environment.gpu": None}, "no-gpu"),
        ({"probes": []}, "probe-missing"),
        ({"probes.0.status": "skipped"}, "probe-failed"),
        ({"probes.0.status": "timed-out"}, "probe-failed"),
        ({"probes.0.numbers.plain_worst_head": 0.1}, "limit-broken"),
        ({"probes.0.plant": "row"}, "probe-planted"),
        ({"problems": ["the JIT build failed"]}, "rank-failed"),
        ({"finished": 99999999999}, "times-disagree"),
    ],
)
def test_what_probes_say_is_judged(
    change: dict[str, Any], text: str, image: str, standin: StandIn,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    standin.behave(here={"probes": {"set": change}})
    status, report, err = smoke(capsys, image)
    assert status == 1 and f"  {text}: rank 0 (here)" in err
    # The report holds what was said, and the verdict is ours.
    assert report["verdict"] == "failed" and report["ranks"][0]["run"]["verdict"] == "passed"


def test_an_exit_status_that_belies_the_document(
    image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    standin.behave(here={"probes": {"status": 1}})
    status, _, err = smoke(capsys, image)
    assert status == 1 and "rank-failed: rank 0 (here): exit status 1" in err


def test_a_rank_that_cannot_be_reached_is_in_the_report(
    image: str, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report, _err = smoke(capsys, image, "--host", "here", "--host", "away")
    assert status == 1 and report["ranks"][0]["run"] is not None
    assert "away cannot be reached" in problem(report, 1)


def gone(pids: Path, seconds: float = 10) -> bool:
    """Whether every process of a file has ended within some seconds."""
    numbers = [int(one) for one in pids.read_text(encoding="utf-8").split()]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        alive = [one for one in numbers if _runs(one)]
        if not alive:
            return True
        time.sleep(0.05)
    return False


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_hang_ends_by_the_time_limit(
    image: str, standin: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What hangs inside is killed by what runs inside, and the container is gone."""
    standin.behave(here={"probes": {"hang": 300, "pids": str(tmp_path / "pids")}})
    status, report, _err = smoke(capsys, image, "--time-limit", "1.5")
    assert status == 1
    assert "exit status 143" in problem(report) and "the time is over" in problem(report)
    assert gone(tmp_path / "pids") and standin.left == []


def test_a_runtime_that_hangs_is_not_waited_for(
    image: str, standin: StandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], tmp_path: Path,
) -> None:  # fmt: skip
    """Where the inside does not end by itself: the client is killed, the container removed."""
    deaf = tmp_path / "deaf.py"
    deaf.write_text("import time; time.sleep(300)", encoding="utf-8")
    monkeypatch.setattr(container, "INSIDE", deaf)
    monkeypatch.setattr(container, "_MOMENT", 0.2)
    status, report, _ = smoke(capsys, image, "--time-limit", "0.5")
    assert status == 1 and "timed out" in problem(report)
    assert standin.left == [] and standin.calls("rm")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_container_and_no_report(
    number: signal.Signals, image: str, line: Line, standin: StandIn, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    standin.behave(here={"probes": {"hang": 300, "pids": str(pids)}})
    process = start(line, image, tmp_path)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and b"interrupted" in err and b"Traceback" not in err
    assert gone(pids) and standin.left == []
    assert not (tmp_path / "report.json").exists()
    assert not list(tmp_path.glob(".report*"))


def test_kill_9_leaves_no_container_either(
    image: str, line: Line, standin: StandIn, tmp_path: Path
) -> None:
    """The container's stdin ends with its caller, and that ends the container."""
    pids = tmp_path / "pids"
    standin.behave(here={"probes": {"hang": 300, "pids": str(pids)}})
    process = start(line, image, tmp_path)
    process.kill()
    process.wait(10)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert gone(pids)
    end = time.monotonic() + 10
    while standin.left and time.monotonic() < end:
        time.sleep(0.05)
    assert standin.left == [] and not (tmp_path / "report.json").exists()


def start(line: Line, image: str, tmp_path: Path) -> subprocess.Popen[bytes]:
    """Start the verb, and return once its probes hang."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    report = str(tmp_path / "report.json")
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline", "smoke", image, "--output", report],
        cwd=line.root, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / "pids").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    assert process.poll() is None
    return process


def test_a_report_in_a_file(
    image: str, standin: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    status, report, _ = smoke(capsys, image, "--output", str(file), "-q")
    assert status == 0 and report == {}
    assert json.loads(file.read_bytes())["verdict"] == "passed"
    assert [one.name for one in tmp_path.iterdir() if "report" in one.name] == ["report.json"]


def test_without_a_container(
    line: Line, standin: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, report, err = smoke(capsys, "rootfs:/", "--require", "nope_mla,nccl_library")
    assert status == 0, err
    assert report["subject"] == {"name": "rootfs:/", "manifest": None, "fingerprint": None}
    assert report["ranks"][0]["runtime"] is None and "it passes no gate" in err
    assert standin.calls() == []
    file = tmp_path / "here.json"
    file.write_text(json.dumps(report), encoding="utf-8")
    with serve() as registry:
        assert main(["push", "v1", f"{registry.host}/chain", "-q"]) == 0
        assert main(["tag", "v1", f"{registry.host}/chain", "--smoke", str(file)]) == 1
        assert "no-image: rootfs:/: the report names no digest" in capsys.readouterr().err
        assert registry.tags == {}


def test_without_a_container_a_fault_is_one_too(
    line: Line, standin: StandIn, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("STANDIN_PROBES", json.dumps({"set": {"probes.0.status": "failed"}}))
    status, _, err = smoke(capsys, "rootfs:/", "--require", "nope_mla")
    assert status == 1 and "probe-failed" in err
    status, report, _ = smoke(capsys, "rootfs:/", "--require", "nope_mla", "--python", "/none")
    assert status == 1 and "cannot be started" in problem(report)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["v3"], "nothing says which probes"),
        (["rootfs:/", "--require", "nope_mla", "--host", "a"], "has no --host"),
        (["rootfs:dist", "--require", "nope_mla"], "smoke rootfs:/"),
        (["docker-archive:x.tar"], "an archive has no digest"),
        (["v1", "--host", "a", "--host", "a"], "given twice"),
        (["v1", "--capability", "twelve"], "is no capability"),
        (["v1", "--capability", "٣.1"], "is no capability"),
        (["v1", "--capability", "0.1"], "is no capability"),
        (["v1", "--time-limit", "0"], "is no time"),
        (["v1", "--time-limit", "nan"], "is no time"),
        (["v1", "--time-limit", "inf"], "is no time"),
        (["v1", "--require", ","], "is no name of a probe"),
        (["v1", "--require", "nope_mla,--out"], "is no name of a probe"),
        (["v1", "--require", "nope_mla", "--only", "a b"], "is no name of a probe"),
        (["v1", "--server", "file:///x"], "is no URL"),
        (["v1", "--output", "none/such/r.json"], "there is no directory"),
        (["v1", "--host", "-oProxyCommand=x"], "no host"),
        (["v1", "--host", "ssh://-oProxyCommand=x"], "no host"),
        (["v1", "--host", "ssh://me@-oProxyCommand=x"], "no host"),
        (["v1", "--host", "a;reboot"], "no host"),
        (["v1", "--host", "$(reboot)"], "no host"),
        (["v1", "--host", "a b"], "no host"),
        (["v1", "--host", "a\nb"], "no host"),
        (["v1", "--host", "tcp://a:2375"], "no host"),
        (["v1", "--host", "here", "--host", ""], "no host"),
    ],
)
def test_calls_that_are_wrong(
    args: list[str], text: str, line: Line, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    host = [word.replace("--host", "--host=", 1) for word in args] if "-oP" in args[-1] else args
    if "-oP" in args[-1]:
        host = [args[0], f"--host={args[-1]}"]
    assert main(["smoke", *host]) == 2
    err = capsys.readouterr().err
    assert text in err and standin.calls("run") == []


def test_the_probes_are_what_runs_whatever_packs_them(tmp_path: Path) -> None:
    for name, text in {"run.py": "1", "a/b.c": "2", "README.md": "3", "a/x.pyc": "4"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    first = read_probes(tmp_path)
    with zipfile.ZipFile(io.BytesIO(first.archive)) as archive:
        assert archive.namelist() == ["a/b.c", "run.py"]
    (tmp_path / "README.md").write_text("other", encoding="utf-8")
    (tmp_path / "run.py").touch()
    assert read_probes(tmp_path) == first
    (tmp_path / "a" / "b.c").write_text("other", encoding="utf-8")
    assert read_probes(tmp_path).digest != first.digest


def test_without_probes_nothing_runs(
    line: Line, standin: StandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.rmtree(line.root / "smoke")
    assert main(["smoke", "v1"]) == 2
    assert "no probes: there is no run.py" in capsys.readouterr().err

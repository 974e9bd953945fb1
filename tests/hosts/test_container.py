"""A program in a container of a real Docker, without GPUs: how it runs and ends, what is left."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.hosts import container
from pipeline.hosts.container import Outcome, Task, run_container
from pipeline.hosts.runtime import Runtime
from tests.hosts.dockerd import missing, run_dockerd

ROOT = Path(__file__).parents[2]
PYTHON = Path("/usr/bin/python3")
RUN = """
import json, os, sys, time
found = {"arguments": sys.argv[1:], "home": os.environ["HOME"]}
for name, path in (("root", "/x"), ("temporary", "/tmp/x")):
    try:
        open(path, "w").close()
        found[name] = "written"
    except OSError as error:
        found[name] = error.strerror
status = open("/proc/self/status").read().split()
found["capabilities"] = status[status.index("CapEff:") + 1]
found["interfaces"] = sorted(os.listdir("/sys/class/net"))
print("probing", file=sys.stderr, flush=True)
if "--hang" in sys.argv:
    time.sleep(300)
print(json.dumps(found))
"""


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as files:
        files.writestr("run.py", RUN)
    return out.getvalue()


def task(runtime: Runtime, *arguments: str, seconds: float = 60) -> Task:
    return Task(runtime.inspect("probe:x")[0].handle, archive(), arguments, seconds)


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    """A daemon with an image of this machine's own python3."""
    lacks = missing() or ("" if PYTHON.exists() else f"no {PYTHON}")
    if lacks:
        pytest.skip(lacks)
    with (
        tempfile.TemporaryDirectory(prefix="smoke-") as short,
        run_dockerd(Path(short) / "d") as host,
    ):
        if host is None:
            pytest.skip("dockerd does not come up here")
        done = subprocess.run(
            ["docker", "-H", host, "import", "-", "probe:x"], input=_system(), capture_output=True
        )
        assert done.returncode == 0, done.stderr
        yield host


def _system() -> bytes:
    """A tar of this machine's python3, its library, and what both are linked with."""
    program = PYTHON.resolve()
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    libraries = [Path(one) for one in re.findall(r"(/\S+) \(0x", said)]
    version = program.name.removeprefix("python")
    out = io.BytesIO()

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        skipped = ("/test", "/dist-packages", "__pycache__", "/config-")
        return None if any(one in entry.name for one in skipped) else entry

    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(program, "usr/bin/python3")
        tar.add(f"/usr/lib/python{version}", filter=plain)
        for library in libraries:
            tar.add(library.resolve(), str(library).lstrip("/"))
    return out.getvalue()


@pytest.fixture
def runtime(daemon: str, monkeypatch: pytest.MonkeyPatch) -> Runtime:
    monkeypatch.setenv("DOCKER_HOST", daemon)
    found = Runtime.on("here", "docker")
    probe = ["docker", "run", "--rm", "probe:x", "python3", "-c", ""]
    if (done := subprocess.run(probe, capture_output=True, text=True)).returncode:
        pytest.skip(f"no container runs here: {done.stderr.strip().splitlines()[-1]}")
    return found


@pytest.fixture
def without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything but the one option that this machine cannot fulfil."""
    command = container.container_command

    def less(*args: object) -> list[str]:
        return [word for word in command(*args) if word != "--gpus=all"]  # type: ignore[arg-type]

    monkeypatch.setattr(container, "container_command", less)


def containers() -> list[str]:
    done = subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def run(runtime: Runtime, one: Task, stop: threading.Event | None = None) -> Outcome:
    return run_container(runtime, one, lambda line: None, stop or threading.Event())


def test_docker_without_gpus_says_no(runtime: Runtime) -> None:
    outcome = run(runtime, task(runtime))
    assert outcome.status == 125 and "[[gpu]]" in outcome.said
    assert containers() == []


def test_what_it_may_do(runtime: Runtime, without_gpus: None) -> None:
    outcome = run(runtime, task(runtime, "--require", "a,b"))
    assert outcome.status == 0, outcome
    assert json.loads(outcome.stdout) == {
        "arguments": ["--require", "a,b"],
        "home": "/tmp",
        "root": "Read-only file system",
        "temporary": "written",
        "capabilities": "0000000000000000",
        "interfaces": ["lo"],
    }
    assert list(outcome.last) == ["probing"] and containers() == []


def test_it_ends_by_its_time(runtime: Runtime, without_gpus: None) -> None:
    outcome = run(runtime, task(runtime, "--hang", seconds=2))
    assert outcome.status == 143 and outcome.last[-1] == "the time is over"
    assert containers() == []


def test_it_ends_when_it_is_stopped(runtime: Runtime, without_gpus: None) -> None:
    stop = threading.Event()
    threading.Timer(3, stop.set).start()
    outcome = run(runtime, task(runtime, "--hang"), stop)
    assert outcome.problem == "interrupted" and containers() == []


def test_it_ends_with_its_caller(runtime: Runtime, without_gpus: None, tmp_path: Path) -> None:
    """kill -9 of the program leaves no container: its stdin ends."""
    script = """
import sys, threading
from tests.hosts.test_container import run, task
from pipeline.hosts import container
from pipeline.hosts.runtime import Runtime
command = container.container_command
container.container_command = lambda *a: [w for w in command(*a) if w != "--gpus=all"]
runtime = Runtime.on("here", "docker")
container.run_container(
    runtime, task(runtime, "--hang"), lambda line: print(line, flush=True), threading.Event()
)
"""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "probing\n"
    assert len(containers()) == 1
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    end = time.monotonic() + 30
    while containers() and time.monotonic() < end:
        time.sleep(0.1)
    assert containers() == []

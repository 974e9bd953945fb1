"""The engine `dagger` on a real Dagger engine that is started here: restarts, kills, full disks."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from graphql import build_schema

from pipeline.engines.reach import PORT, TOKEN, find_engine
from pipeline.engines.session import open_session
from pipeline.pins import load_lock
from pipeline.toolbox import base_for
from pipeline.wheels.house import default_cache
from tests.engines.realengine import RealEngine, missing, started
from tests.engines.recorder import relay
from tests.engines.shapes import ACCEPTED
from tests.engines.standin import SCHEMA
from tests.engines.test_dagger import change_v1, change_v3, ran, refused, replace_deb
from tests.line import Line, make_line

ROOT = Path(__file__).parents[2]
# What has weight in the small line.
ON_ENGINE = {"base/debian", "base/wheels/shared", "v3/layer"}
_MACHINE = {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}.get(os.uname().machine, "")


def _why_not() -> str:
    if reason := missing():
        return f"no Dagger engine can be started: {reason}"
    lock = load_lock(ROOT / "pins.toolbox.toml")
    base = base_for(lock, _MACHINE)
    files = [*base.debs, *lock.select(base.name)]
    lacking = sum(not (default_cache() / "files/sha256" / f.sha256).exists() for f in files)
    return f"{lacking} files of the toolbox are not in the cache" if lacking else ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


@dataclass
class Client:
    """A project of a small line, with a cache and a state folder of its own."""

    line: Line
    state: Path
    engine: RealEngine
    more: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{k: v for k, v in os.environ.items() if k not in (PORT, TOKEN)},
            "PYTHONPATH": str(ROOT),
            "SM121_CHAIN_CACHE": str(self.line.cache),
            "XDG_STATE_HOME": str(self.state),
            **self.engine.environment,
            **self.more,
        }

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pipeline", "build", "--offline", *args],
            cwd=self.line.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell starts what runs in its background with Ctrl-C ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def build(self, *args: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*args)
        stdout, stderr = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def new_client(place: Path, engine: RealEngine) -> Client:
    line = make_line(place / "project", place / "cache", place / "scratch")
    lock = load_lock(ROOT / "pins.toolbox.toml")
    base = base_for(lock, _MACHINE)
    store = line.cache / "files/sha256"
    for file in (*base.debs, *lock.select(base.name)):
        shutil.copyfile(default_cache() / "files/sha256" / file.sha256, store / file.sha256)
    shutil.copy(ROOT / "pins.toolbox.toml", line.root)
    return Client(line, place / "state", engine)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealEngine]:
    with started(tmp_path_factory.mktemp("engine")) as running:
        yield running


@pytest.fixture
def client(tmp_path: Path, engine: RealEngine) -> Client:
    return new_client(tmp_path, engine)


def local_lines(client: Client, tmp_path: Path) -> str:
    """What the local engine builds of a client's project, with a cache of its own."""
    cache = tmp_path / "local-cache"
    shutil.copytree(client.line.cache / "files", cache / "files")
    own = replace(client, more={"SM121_CHAIN_CACHE": str(cache)})
    return own.build("--engine", "local", "--out", "local").stdout


def test_equal_lines_cold_warm_after_a_restart_and_for_a_new_client(
    client: Client, tmp_path: Path
) -> None:
    expected = local_lines(client, tmp_path)
    assert len(expected.splitlines()) == 5
    cold = client.build()
    assert (cold.stdout, cold.returncode) == (expected, 0), cold.stderr
    assert ON_ENGINE.issubset(ran(cold))
    warm = client.build()
    assert (warm.stdout, ran(warm)) == (expected, [])
    client.engine.stop()
    client.engine.start()
    restarted = client.build()
    assert (restarted.stdout, ran(restarted)) == (expected, [])
    (tmp_path / "other").mkdir()
    other = new_client(tmp_path / "other", client.engine).build()
    assert other.stdout == expected
    assert not ON_ENGINE.intersection(ran(other))


def test_an_edit_in_v1_runs_what_reads_it_and_no_layer_that_stays(client: Client) -> None:
    client.build()
    change_v1(client.line, 5)
    done = client.build()
    plans = ["v1/plan", "v3/plan", "v4/plan", "v1/audit", "v3/audit", "v4/audit"]
    assert sorted(ran(done)) == sorted([*plans, "v1/layer"])


def test_an_edit_of_a_module_runs_only_the_steps_that_import_it(
    client: Client, tmp_path: Path
) -> None:
    client.build()
    copy = tmp_path / "program"
    # a fresh checkout: the same content, all of it newer
    shutil.copytree(ROOT / "pipeline", copy / "pipeline", copy_function=shutil.copyfile)
    client.more = {"PYTHONPATH": str(copy)}
    with (copy / "pipeline/cli/build.py").open("a", encoding="utf-8") as file:
        file.write("# no step imports this\n")
    assert ran(client.build()) == []
    with (copy / "pipeline/steps/audit.py").open("a", encoding="utf-8") as file:
        file.write("# the audits are this\n")
    assert {step.partition("/")[2] for step in ran(client.build())} == {"audit"}


def test_two_builds_at_once(client: Client, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = new_client(tmp_path / "other", client.engine)
    for each in (client, other):
        change_v3(each.line, "Seventeen")
    processes = [client.start(), other.start()]
    outputs = [process.communicate(timeout=600) for process in processes]
    assert outputs[0][0] == outputs[1][0] != ""
    assert [process.returncode for process in processes] == [0, 0], outputs


def test_a_refusal_of_a_step(client: Client) -> None:
    client.line.edit("patches/scale.toml", "return x * 2", "return x * 7")
    refused(client.build(), 1, "v1.a", "anchor-missing")
    replace_deb(client.line)
    refused(client.build(), 1, "ends inside its member")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_that_goes_in_the_middle_and_comes_again(
    client: Client, tmp_path: Path, how: signal.Signals
) -> None:
    change_v3(client.line, f"Nineteen {how}")
    process = client.start()
    assert process.stderr is not None
    done = []
    for text in process.stderr:
        done.append(text)
        if "base/system" in text:  # the layer of v3 is still to be made
            break
    client.engine.stop(how)
    began = time.monotonic()
    stderr = process.stderr.read()
    status = process.wait()
    assert time.monotonic() - began < 10
    assert "Traceback" not in stderr
    if how == signal.SIGKILL or status:  # one that is asked to stop may end what it is at
        assert status == 3
        assert stderr.count("error: ") == 1
        assert "connection to the Dagger engine was lost" in stderr
    client.engine.start()
    again = client.build()
    assert again.returncode == 0, again.stderr
    assert again.stdout == local_lines(client, tmp_path)
    # After SIGKILL an engine of 0.21 throws all of its cache away; what came is here.
    assert not {text.split()[1] for text in done}.intersection(ran(again))


def test_ctrl_c_ends_the_session(client: Client) -> None:
    change_v1(client.line, 23)
    process = client.start()
    assert process.stderr is not None
    for text in process.stderr:
        if text.startswith("["):
            break
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr.rstrip().endswith("interrupted") and "Traceback" not in stderr
    sessions = subprocess.run(
        [
            "pgrep",
            "-f",
            "-x",
            f"{client.engine.environment['_EXPERIMENTAL_DAGGER_CLI_BIN']} session.*",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert sessions.stdout == ""


def test_a_full_disk_of_the_engine(tmp_path: Path) -> None:
    place = tmp_path / "engine"
    place.mkdir()
    with started(place, limit="150m") as small:
        (tmp_path / "client").mkdir()
        client = new_client(tmp_path / "client", small)
        refused(client.build(), 3, "the disk of the Dagger engine is full")


def test_an_engine_of_another_version(tmp_path: Path) -> None:
    place = tmp_path / "engine"
    place.mkdir()
    with started(place, version="v0.18.0") as old:
        (tmp_path / "client").mkdir()
        client = new_client(tmp_path / "client", old)
        began = time.monotonic()
        done = client.build("--engine", "dagger")
        assert time.monotonic() - began < 10
    refused(done, 3, "incompatible engine version v0.18.0", "CLI of version 0.21")


def test_the_stand_in_asks_for_nothing_that_this_engine_refuses(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in client.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(PORT, raising=False)
    change_v3(client.line, "Twenty-nine")
    with (
        open_session(find_engine(os.environ), None),
        relay(int(os.environ[PORT])) as (port, record),
    ):
        client.more = {PORT: str(port), TOKEN: os.environ[TOKEN]}
        assert client.build().returncode == 0
        lacking = asyncio.run(_lacking(monkeypatch, port))
    assert record.accepted <= ACCEPTED
    assert not lacking


async def _lacking(monkeypatch: pytest.MonkeyPatch, port: int) -> list[str]:
    """What the stand-in's schema has and the engine's has not."""
    import dagger

    monkeypatch.setenv(PORT, str(port))
    async with dagger.Connection(dagger.Config(retry=None)) as connected:
        schema = await connected._ctx.conn.session.get_schema()
    ours = build_schema(SCHEMA)
    lacking = []
    for name in ("Query", "Host", "Container", "Directory", "File"):
        theirs = getattr(schema.get_type(name), "fields", {})
        for field_name, own in getattr(ours.get_type(name), "fields", {}).items():
            found = theirs.get(field_name)
            same = found and str(found.type) == str(own.type)
            if not same or any(
                a not in found.args or str(found.args[a].type) != str(arg.type)
                for a, arg in own.args.items()
            ):
                lacking.append(f"{name}.{field_name}")
    return lacking

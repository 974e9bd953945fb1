"""The engine `dagger` against a stand-in session: same lines, what runs again, what goes wrong."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.engines.mishaps import Gone, engine_trouble, lost
from pipeline.engines.reach import CLI, HOST, PORT
from pipeline.engines.reach import TOKEN as TOKEN_VARIABLE
from tests.engines.standin import TOKEN, StandIn, serve
from tests.line import DEB, Line, add_toolbox, make_line

ROOT = Path(__file__).parents[2]
# Whatever engine the machine of the test has is not meant.
UNSET = {CLI: "", HOST: "", PORT: "", TOKEN_VARIABLE: ""}


@dataclass
class Setting:
    line: Line
    standin: StandIn
    port: int

    def build(
        self, *args: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        session = {PORT: str(self.port), TOKEN_VARIABLE: TOKEN}
        return build(self.line, *args, env={**session, **(env or {})})

    def forget_steps(self) -> None:
        """Let this client hold no output of a step any more."""
        shutil.rmtree(self.line.cache / "steps")

    def sent_layers(self) -> list[str]:
        """The layers of the layout that came from the engine, by digest."""
        blobs = self.line.root / "dist" / "blobs" / "sha256"
        return sorted(name for name in self.standin.exported if (blobs / name).exists())

    def steps(self) -> int:
        """How many steps ran."""
        return sum(1 for args in self.standin.ran if args[-1] == "pipeline.steps.contained")


def build(line: Line, *args: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    return subprocess.run(
        [sys.executable, "-m", "pipeline", "build", "--offline", *args],
        cwd=line.root,
        env={**os.environ, **UNSET, **own, **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> StandIn:
    """One engine for all of these tests: what one has made, the others find."""
    return StandIn(tmp_path_factory.mktemp("standin"))


@pytest.fixture
def setting(standin: StandIn, tmp_path: Path) -> Iterator[Setting]:
    line = make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")
    add_toolbox(line)
    standin.forget()
    with serve(standin) as port:
        yield Setting(line, standin, port)
    assert not standin.refused


def ran(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The steps that no cache answered."""
    return re.findall(r"^\[\d+/\d+\] (\S+)", done.stderr, re.MULTILINE)


def change_v1(line: Line, factor: int) -> None:
    """Edit v1 to what no other test has."""
    for name in ("patches/scale.toml", "stages/v01-model.toml"):
        line.edit(name, "x * 3", f"x * {factor}")


def change_v3(line: Line, title: str) -> None:
    """Edit v3 to what no other test has: its layer of a wheel is made again, on the engine."""
    line.edit("stages/v03-flashinfer.toml", "FlashInfer 0.6.18", title)


def replace_deb(line: Line) -> None:
    """Lock a .deb whose data ends too early."""
    whole = (line.cache.parent / "scratch" / DEB).read_bytes()
    data = whole[: len(whole) // 2]
    old, new = (hashlib.sha256(d).hexdigest() for d in (whole, data))
    (line.cache / "files" / "sha256" / new).write_bytes(data)
    line.edit(
        "pins.toml",
        f'size = {len(whole)}, sha256 = "{old}"',
        f'size = {len(data)}, sha256 = "{new}"',
    )


def refused(done: subprocess.CompletedProcess[str], status: int, *texts: str) -> None:
    """The one way in which an error may look: status, one error line, a next step, no traceback."""
    assert done.returncode == status, done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    assert "next: " in done.stderr and "Traceback" not in done.stderr
    for text in texts:
        assert text in done.stderr


def test_both_engines_give_the_same_lines(setting: Setting) -> None:
    local = build(setting.line, "--engine", "local", "--out", "local", env={})
    setting.forget_steps()  # the engines share them
    remote = setting.build("--out", "dagger")  # auto: a session is in the environment
    assert remote.returncode == 0, remote.stderr
    assert setting.standin.exported
    assert remote.stdout == local.stdout != ""
    blobs = [
        sorted(path.name for path in (setting.line.root / out / "blobs/sha256").iterdir())
        for out in ("local", "dagger")
    ]
    assert blobs[0] == blobs[1]


def test_a_second_build_asks_the_engine_nothing_on_either_engine(setting: Setting) -> None:
    first = setting.build()
    assert setting.standin.requests
    setting.standin.forget()
    for engine in ("dagger", "local"):
        second = setting.build("--engine", engine)
        assert second.stdout == first.stdout
        assert "14 of 14 steps from the cache" in second.stderr
    assert setting.standin.requests == 0


def test_a_client_that_holds_nothing_runs_nothing_again(setting: Setting) -> None:
    first = setting.build()
    exported = list(setting.standin.exported)
    assert len(exported) == len(set(exported)) == 3 * 2  # a layer, and what is beside it
    setting.forget_steps()
    shutil.rmtree(setting.line.root / "dist")
    setting.standin.forget()
    second = setting.build()
    assert second.stdout == first.stdout
    assert setting.standin.ran == []
    assert not {"base/debian", "base/wheels/shared", "v3/layer"}.intersection(ran(second))
    assert sorted(setting.standin.exported) == sorted(exported)


def test_only_the_layer_that_lacks_is_brought_and_a_damaged_one_is_not_kept(
    setting: Setting,
) -> None:
    setting.build()
    blobs = setting.line.root / "dist" / "blobs" / "sha256"
    gone, damaged = setting.sent_layers()[:2]
    (blobs / gone).unlink()
    (blobs / damaged).unlink()
    (blobs / damaged).write_bytes(b"damaged")
    setting.forget_steps()
    setting.standin.forget()
    assert setting.build().returncode == 0
    assert setting.sent_layers() == sorted([gone, damaged])


def test_an_edit_in_v1_makes_no_layer_again_whose_bytes_stay(setting: Setting) -> None:
    setting.build()
    setting.standin.forget()
    change_v1(setting.line, 5)
    done = setting.build()
    # plan, layer and audit of v1; plan and audit of v3 and of v4, whose layers are as they were.
    # They have no weight and read what lies here: nothing is asked of the engine.
    assert setting.standin.requests == 0
    assert "7 of 14 steps from the cache" in done.stderr
    setting.forget_steps()
    again = setting.build()  # a client that has nothing
    assert setting.steps() == 0
    setting.forget_steps()
    local = build(setting.line, "--engine", "local", "--out", "local", env={})
    assert done.stdout == again.stdout == local.stdout


def test_a_step_with_weight_gets_from_here_what_was_made_here(setting: Setting) -> None:
    setting.build()
    setting.standin.forget()
    change_v3(setting.line, "FlashInfer at 18")
    done = setting.build()
    # v3/plan is made here, its layer of a wheel there, and nothing that reads both
    assert setting.steps() == 1
    setting.forget_steps()
    local = build(setting.line, "--engine", "local", "--out", "local", env={})
    assert done.stdout == local.stdout != ""
    setting.forget_steps()
    setting.standin.forget()
    again = setting.build()
    assert "v3/plan" in ran(again) and "v3/layer" not in ran(again)


def test_a_step_sees_the_modules_that_it_imports_and_no_others(setting: Setting) -> None:
    assert setting.build().returncode == 0
    apps = [a for a in setting.standin.objects.values() if getattr(a, "kind", "") == "Directory"]
    trees = [{p.name for p in a.path.rglob("*.py")} for a in apps]
    programs = [names for names in trees if "contained.py" in names and "reach.py" not in names]
    assert programs and not any("building.py" in names for names in programs)


def test_a_refusal_of_a_step_is_its_own(setting: Setting) -> None:
    setting.line.edit("patches/scale.toml", "return x * 2", "return x * 7")
    done = setting.build()
    refused(done, 1, "v1.a", "anchor-missing")
    assert [text.split()[0] for text in done.stdout.splitlines()] == ["sm121-base"]


def test_a_refusal_on_the_engine_is_the_local_one(setting: Setting) -> None:
    replace_deb(setting.line)
    done = setting.build()
    local = build(setting.line, "--engine", "local", env={})  # nothing of it is kept
    refused(done, local.returncode, "ends inside its member")
    assert done.stderr.partition("error: ")[2] == local.stderr.partition("error: ")[2]


def test_a_full_disk_on_the_engine(setting: Setting) -> None:
    change_v3(setting.line, "11")
    setting.standin.break_exec = "write /job/out/x: no space left on device"
    refused(setting.build(), 3, "the disk of the Dagger engine is full", "local-cache prune")


def test_a_program_that_breaks_is_no_traceback_of_ours(setting: Setting) -> None:
    change_v3(setting.line, "13")
    setting.standin.break_exec = "Traceback (most recent call last):\n  x\nImportError: no y\n"
    refused(setting.build(), 3, "ImportError: no y")


def test_a_connection_that_breaks_off(setting: Setting) -> None:
    setting.standin.hang_up = True
    refused(setting.build(), 3, "session")


def test_a_session_with_another_token(setting: Setting) -> None:
    refused(setting.build(env={TOKEN_VARIABLE: "other"}), 3)


@pytest.mark.parametrize(
    ("env", "texts"),
    [
        ({PORT: "1"}, ["DAGGER_SESSION_TOKEN is not"]),
        ({PORT: "1", TOKEN_VARIABLE: "x"}, ["no Dagger session at port 1"]),
        ({PORT: "http", TOKEN_VARIABLE: "x"}, ["no Dagger session at port http"]),
        ({HOST: "unix:///nowhere", CLI: "/bin/true"}, ["no Dagger engine listens on /nowhere"]),
        ({HOST: "tcp://127.0.0.1:1", CLI: "/bin/true"}, ["no Dagger engine at tcp://127.0.0.1:1"]),
        ({HOST: "tcp://127.0.0.1", CLI: "/bin/true"}, ["tcp://HOST:PORT is needed"]),
        ({HOST: "carrier-pigeon://x", CLI: "/bin/true"}, ["no such kind of address", "kube-pod"]),
        ({HOST: "unix:///nowhere", CLI: "/no/cli"}, [f"{CLI}=/no/cli: that is no program"]),
        ({CLI: "/bin/true", "PATH": "/nowhere"}, ["no Dagger engine is named"]),
        ({"PATH": "/nowhere", "HOME": "/nowhere"}, ["Dagger's CLI is not here", CLI]),
    ],
)
def test_what_is_not_there_is_said_at_once(
    setting: Setting, env: Mapping[str, str], texts: list[str]
) -> None:
    done = build(setting.line, "--engine", "dagger", env=env)
    refused(done, 3, *texts)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo 'Error: start engine: incompatible engine version v0.18.0' >&2; exit 1", "v0.18.0"),
        ("exit 0", "it ended at once"),
        ("echo nonsense", "nonsense"),
        ("exec sleep 60", "gave no session in 9 s"),
    ],
)
def test_a_cli_that_gives_no_session(
    setting: Setting, tmp_path: Path, script: str, text: str
) -> None:
    cli, socket = tmp_path / "cli", tmp_path / "s"
    cli.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    cli.chmod(0o755)
    listening = _listener(socket)
    env = {HOST: f"unix://{socket}", CLI: str(cli)}
    setting.build()
    setting.forget_steps()
    before = (setting.line.root / "dist" / "index.json").read_bytes()
    done = build(setting.line, "--engine", "dagger", env=env)
    listening.close()
    refused(done, 3, text)
    assert (setting.line.root / "dist" / "index.json").read_bytes() == before
    assert not re.search(r"^\s+File ", done.stderr, re.MULTILINE)


def _listener(path: Path):  # type: ignore[no-untyped-def]
    import socket

    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    return listening


def test_an_engine_that_shuts_down_is_one_that_is_gone() -> None:
    error = engine_trouble("input: container.from: engine is shutting down", "base/debian")
    assert isinstance(error, Gone) and error.exit_status == 3
    assert "connection to the Dagger engine was lost: it shuts down" in str(error)
    assert lost("502 Bad Gateway\nFor more").message.endswith("was lost: 502 Bad Gateway")

"""`doctor`: which engines could be used, and why not the others."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.engines.reach import CLI, HOST, PORT, TOKEN


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (CLI, HOST, PORT, TOKEN):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path))
    (tmp_path / "files").mkdir()


def test_a_machine_without_dagger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok  engine local") and "free" in lines[0]
    assert lines[1].startswith("no  engine dagger") and "CLI is not here" in lines[1]
    assert lines[2].strip().startswith("next: ") and CLI in lines[2]
    assert any(line.startswith("no  docker") for line in lines)


def test_an_engine_that_is_named_and_not_there_is_what_a_build_would_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(HOST, "unix:///nowhere")
    monkeypatch.setenv(CLI, "/bin/true")
    assert main(["doctor"]) == 3
    assert "no Dagger engine listens on /nowhere" in capsys.readouterr().out.splitlines()[0]


def test_what_listens_and_is_no_engine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = tmp_path / "cli"
    cli.write_text("#!/bin/sh\necho 'Error: start engine: no engine' >&2\nexit 1\n")
    cli.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        monkeypatch.setenv(HOST, f"unix://{tmp_path}/s")
        monkeypatch.setenv(CLI, str(cli))
        assert main(["doctor"]) == 3
        assert "start engine: no engine" in capsys.readouterr().out
        assert main(["doctor", "--no-connect"]) == 0


def test_a_cache_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("SM121_CHAIN_CACHE", "/proc/nowhere")
    main(["doctor"])
    assert "SM121_CHAIN_CACHE" in capsys.readouterr().out

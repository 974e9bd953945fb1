"""The program that judges syntax: what it says, and when it does not come to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ChainError, OutsideTrouble, UsageError
from pipeline.patching import syntax
from pipeline.patching.syntax import SyntaxFault, syntax_faults


def test_each_python_has_its_own_syntax() -> None:
    files = {"a.py": b"type X = int\n", "b.py": b"x = 1\n"}
    assert syntax_faults(files, "3.12") == {}
    (faults,) = syntax_faults(files, "3.11").values()
    assert faults[0].line == 1


def test_a_file_in_no_encoding() -> None:
    assert list(syntax_faults({"a.py": b"\xff"}, "3.12")["a.py"]) == [
        SyntaxFault(1, "not in its declared encoding (UTF-8 without one)")
    ]


@pytest.mark.parametrize("python", ["3", "4.1", "3.x", ""])
def test_what_is_no_python(python: str) -> None:
    with pytest.raises(UsageError, match="is no Python version"):
        syntax_faults({"a.py": b""}, python)


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("echo no such target >&2; exit 2", UsageError, "cannot judge syntax for Python 3.12"),
        ("echo memory allocation failed >&2; kill -ABRT $$", OutsideTrouble, "ended by signal 6"),
        ("kill -9 $$", OutsideTrouble, "ended by signal 9"),
    ],
)
def test_a_ruff_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, kind: type[Exception], said: str
) -> None:
    program = tmp_path / "ruff"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(syntax, "find_ruff_bin", lambda: str(program))
    with pytest.raises(kind, match=said):
        syntax_faults({"a.py": b""}, "3.12")
    monkeypatch.setattr(syntax, "find_ruff_bin", lambda: str(tmp_path / "none"))
    with pytest.raises(OutsideTrouble, match="ruff does not run"):
        syntax_faults({"a.py": b""}, "3.12")


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = tmp_path / "ruff"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(syntax, "find_ruff_bin", lambda: str(program))


def test_a_file_in_no_encoding_hides_no_other() -> None:
    faults = syntax_faults({"a.py": b"\xff", "b.py": b"x = ("}, "3.12")
    assert list(faults) == ["a.py", "b.py"]


def test_of_no_files_nothing_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, "exit 2")
    assert syntax_faults({}, "3.12") == {}
    assert list(syntax_faults({"a.py": b"\xff"}, "3.12")) == ["a.py"]


def test_settings_of_ruff_in_the_environment_have_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUFF_OUTPUT_FILE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("KEPT_SETTING", "1")
    fake(tmp_path, monkeypatch, 'test -z "$RUFF_OUTPUT_FILE" && test -n "$KEPT_SETTING" && echo []')
    assert syntax_faults({"a.py": b""}, "3.12") == {}


@pytest.mark.parametrize(("end", "kind"), [("exit 2", UsageError), ("kill -9 $$", OutsideTrouble)])
def test_of_what_ruff_says_three_lines_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, kind: type[ChainError]
) -> None:
    fake(tmp_path, monkeypatch, f"printf '1\\n2\\n3\\n4\\n' >&2; {end}")
    with pytest.raises(kind) as caught:
        syntax_faults({"a.py": b""}, "3.12")
    assert list(caught.value.details) == ["1", "2", "3"]

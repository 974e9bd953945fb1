"""The program that judges syntax: what it says, and when it does not come to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble, UsageError
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

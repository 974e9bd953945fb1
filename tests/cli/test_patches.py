"""The verb `patches`: where releases come from, the matrix and its formats, port and then check."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.wheels.house import Wheelhouse
from tests.cli.test_fetch import LOCK, PACKAGE
from tests.wheels.makewheel import make_wheel

OLD = "class C:\n    def f(self):\n        return 1\n\n\ndef g():\n    return 2\n"
PATCH = """# A comment.
name = "mine"
title = "one line"
why = "because"
upstream = ""
distribution = "my-pkg"
[[variants]]
for = "my-pkg==1.*"
[[variants.upstream]]
file = "pkg/a.py"
contains = "def fixed"
[[variants.edits]]
id = "e.a"
file = "pkg/a.py"
within = "C.f"
find = "return 1"
replace = "return 10"
[[variants.edits]]
id = "e.b"
file = "pkg/a.py"
within = "g"
find = "return 2"
replace = "return 20"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a lock, a patch, and releases 1.0 (locked), 2.0 and 3.0 on pip's index."""
    root, index = tmp_path / "project", tmp_path / "index"
    (root / "patches").mkdir(parents=True)
    index.mkdir()
    (root / "patches" / "mine.toml").write_text(PATCH, encoding="utf-8", newline="\n")
    locked = make_wheel(tmp_path, "my-pkg", "1.0", {"pkg/a.py": OLD})
    make_wheel(index, "my-pkg", "2.0", {"pkg/a.py": "x = 1\n", "pkg/b.py": OLD})
    make_wheel(index, "my-pkg", "3.0", {"pkg/a.py": "def fixed(): pass\n"})
    make_wheel(index, "other", "1.0", {"other.py": "x = 1\n"})
    data = locked.read_bytes()
    entry = PACKAGE.format(
        name="my-pkg",
        version="1.0",
        marker="",
        where=f'path = "wheelhouse/{locked.name}"',
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )
    lock = LOCK.format(
        packages=entry,
        deb="pool/main/z/zlib/zlib1g_1.2.13_arm64.deb",
        size=1,
        sha="0" * 64,
        zeros="0" * 64,
    )
    (root / "pins.toml").write_text(lock.replace('"one==1.0", "two==1.0"', ""), encoding="utf-8")
    monkeypatch.chdir(root)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{index} {tmp_path}")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return root


def check(*words: str) -> int:
    return main(["patches", "check", "-q", *words])


def test_locked_release_comes_into_the_cache(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check("--against", "My_Pkg==1.0") == 0
    out = capsys.readouterr()
    assert "applies" in out.out
    assert "not in the lock" not in out.err
    (tmp_path / "my_pkg-1.0-py3-none-any.whl").unlink()
    assert check("--against", "my-pkg==1.0") == 0


def test_matrix(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = [word for v in ("1.0", "2.0", "3.0") for word in ("--against", f"my-pkg=={v}")]
    assert check(*columns) == 1
    out = capsys.readouterr()
    lines = [line.split() for line in out.out.splitlines()]
    assert lines[1:3] == [
        ["mine", "e.a", "applies", "moved", "upstream"],
        ["mine", "e.b", "applies", "moved", "upstream"],
    ]
    assert "file pkg/a.py -> pkg/b.py" in out.out
    assert "mine: my-pkg 3.0 has it" in out.out
    assert "pkg/a.py:1  def fixed(): pass" in out.out
    assert "my-pkg 2.0 is not in the lock: sha256" in out.err
    assert "every patch is fine with my-pkg 3.0" in out.err


def test_formats(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--against", "my-pkg==1.0", "--against", "my-pkg==2.0", "--format", "json") == 1
    data = json.loads(capsys.readouterr().out)
    first, second = data["surveys"]
    assert (first["fits"], second["fits"]) == (True, False)
    (patch,) = second["patches"]
    assert (patch["state"], patch["as-if"]) == ("does-not-fit", True)
    assert patch["edits"][0]["proposal"]["edit"]["file"] == "pkg/b.py"
    assert patch["edits"][0]["proposal"]["read"]
    assert check("--against", "my-pkg==2.0", "--format", "markdown") == 1
    out = capsys.readouterr().out
    assert "| mine | e.a | moved |" in out
    assert "### mine on my-pkg 2.0: does-not-fit" in out
    assert "`pkg/b.py:3 return 1`" in out


def test_syntax_is_judged_for_the_base(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "patches" / "mine.toml"
    path.write_text(PATCH.replace('"return 10"', '"type X = int"'), encoding="utf-8")
    assert check("--against", "my-pkg==1.0") == 1
    assert "Python 3.11" in capsys.readouterr().out
    assert check("--against", "my-pkg==1.0", "--base", "day0") == 0
    assert check("--against", "my-pkg==1.0", "--python", "3.12") == 0


def test_port_then_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / "patches" / "mine.toml"
    assert main(["patches", "port", "-q", "--against", "my-pkg==2.0", "--dry-run"]) == 0
    out = capsys.readouterr()
    assert 'for = "my-pkg==2.*"' in out.out
    assert "READ e.a" in out.err
    assert path.read_text(encoding="utf-8") == PATCH
    assert main(["patches", "port", "-q", "--against", "my-pkg==2.0"]) == 0
    out = capsys.readouterr()
    assert "READ e.a: it is in another place" in out.out
    assert path.read_text(encoding="utf-8").startswith(PATCH)
    assert check("--against", "my-pkg==1.0", "--against", "my-pkg==2.0") == 0
    assert main(["patches", "port", "-q", "--against", "my-pkg==2.0"]) == 0
    assert "nothing to port" in capsys.readouterr().out
    assert main(["patches", "port", "-q", "--against", "my-pkg==3.0"]) == 0
    assert "upstream" in capsys.readouterr().out


def test_port_refuses(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = make_wheel(tmp_path, "my-pkg", "4.0", {"pkg/a.py": "x = 1\n"})
    assert main(["patches", "port", "--against", str(wheel)]) == 1
    assert "not ported" in capsys.readouterr().out
    assert (project / "patches" / "mine.toml").read_text(encoding="utf-8") == PATCH
    assert main(["patches", "port"]) == 2
    assert main(["patches", "port", "--against", "a==1", "--against", "b==1"]) == 2


def test_wrong_calls(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--against", "other==1.0") == 2
    assert "no patch among these" in capsys.readouterr().err
    assert check("--against", "my-pkg==9.9") in (1, 3)
    assert check() == 2
    assert check("--against", "my-pkg==1.0", "nobody") == 2
    assert check("--against", "my-pkg==1.0", "--line", "nothing") == 2


def test_without_a_lock(project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pins.toml").unlink()
    assert check("--against", "my-pkg==1.0") == 0
    assert check("--against", "my-pkg==2.0") == 1


def test_offline_answers_from_the_cache(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check("--against", "my-pkg==2.0") == 1
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert check("--against", "my-pkg==2.0") == 1
    assert list(Wheelhouse(tmp_path / "cache").path("x").parent.iterdir())


def test_no_table_ends_its_lines_with_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["patches", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 20 and [line for line in lines if line != line.rstrip()] == []

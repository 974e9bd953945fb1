"""What a probe promises: one line of JSON, its status, and an exit status that says the same."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.conftest import SMOKE, Ended, start


def probe(tmp_path: Path, body: str, *arguments: str) -> Ended:
    """Run a probe with this body."""
    script = tmp_path / "sample.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.append({str(SMOKE)!r})\n"
        "import probe as contract\n"
        "def body(probe, given):\n"
        + textwrap.indent(textwrap.dedent(body), "    ")
        + '\nsys.exit(contract.run("sample", "A sample.", body, {"fault": "a fault"}))\n',
        encoding="utf-8",
    )
    return start(script, arguments)


def test_passed(tmp_path: Path) -> None:
    ended = probe(
        tmp_path,
        """
        probe.number("error", 0.0025, max=0.004)
        probe.case("one", error=0.0025)
        probe.facts["path"] = "/lib"
        """,
    )
    assert ended.status == 0
    assert ended.told.pop("seconds") >= 0
    assert ended.told == {
        "probe": "sample",
        "status": "passed",
        "reason": "",
        "numbers": {"error": 0.0025},
        "thresholds": {"error": {"max": 0.004}},
        "facts": {"path": "/lib"},
        "cases": [{"case": "one", "numbers": {"error": 0.0025}}],
    }
    assert "one: error 0.0025" in ended.err


@pytest.mark.parametrize(
    ("body", "exit_status", "status", "reason"),
    [
        ("probe.number('e', 0.5, max=0.4)", 1, "failed", "e is 0.5, at most 0.4 is allowed"),
        ("probe.number('e', 3, min=4)", 1, "failed", "e is 3, at least 4 is wanted"),
        ("probe.number('e', 90, equals=121)", 1, "failed", "e is 90, 121 is wanted"),
        ("probe.number('e', float('nan'), max=1)", 1, "failed", "e is not finite"),
        ("probe.number('e', float('inf'), min=1)", 1, "failed", "e is not finite"),
        ("raise RuntimeError('CUDA error\\nmore')", 1, "failed", "RuntimeError: CUDA error"),
        ("raise contract.Broken('no kernel')", 1, "failed", "no kernel"),
        ("raise contract.CannotRun('no GPU')", 2, "error", "no GPU"),
        ("raise contract.Skipped('no server')", 2, "skipped", "no server"),
        ("probe.number('e', 0.5)", 2, "error", "nothing was asserted"),
    ],
)
def test_not_passed(tmp_path: Path, body: str, exit_status: int, status: str, reason: str) -> None:
    ended = probe(tmp_path, body)
    assert (ended.status, ended.told["status"], ended.told["reason"]) == (
        exit_status,
        status,
        reason,
    )


def test_a_case_that_is_not_finite_is_no_json_nan(tmp_path: Path) -> None:
    ended = probe(tmp_path, "probe.case('c', a=float('nan'), b=1); probe.number('b', 1, equals=1)")
    assert ended.told["cases"] == [{"case": "c", "numbers": {"b": 1}}]


def test_what_libraries_print_is_not_on_stdout(tmp_path: Path) -> None:
    ended = probe(
        tmp_path,
        """
        print("from Python")
        os.write(1, b"from C\\n")
        os.system("echo from a child")
        probe.number("e", 1, equals=1)
        """,
    )
    assert ended.told["status"] == "passed"
    for text in ("from Python", "from C", "from a child"):
        assert text in ended.err


def test_planted_and_written(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    body = "probe.number('e', 1, equals=1)"
    ended = probe(tmp_path, body, "--plant", "fault", "--out", str(out))
    assert ended.told["plant"] == "fault"
    assert '"plant": "fault"' in out.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["12", "12.x", "twelve", ""])
def test_capability_that_is_none(tmp_path: Path, text: str) -> None:
    ended = probe(tmp_path, "pass", "--capability", text)
    assert ended.status == 2
    assert "is no capability such as 12.1" in ended.err


def test_help_names_the_faults(tmp_path: Path) -> None:
    script = SMOKE / "nope_mla.py"
    ended = start(script, ["--help"])
    assert ended.status == 0


def test_gpu_of_another_capability_fails(smoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    cuda = SimpleNamespace(
        is_available=lambda: True,
        init=lambda: None,
        get_device_capability=lambda index: (9, 0),
        get_device_name=lambda index: "NVIDIA H200",
    )
    matmul = SimpleNamespace(allow_tf32=True)
    torch: Any = SimpleNamespace(
        cuda=cuda, backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul))
    )
    monkeypatch.setitem(__import__("sys").modules, "torch", torch)
    told = smoke.probe.Probe("sample")
    smoke.probe.gpu(told, (12, 1))
    assert told.faults == ["capability is 90, 121 is wanted"]
    assert matmul.allow_tf32 is False

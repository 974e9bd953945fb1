"""Text: columns, the width of a terminal, colours only where they are wanted."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import TextIO

import pytest

from pipeline.audit.report import AuditReport
from pipeline.report.text import write_audit
from pipeline.report.text_drift import write_comparison, write_history
from tests.report.samples import comparison, history, judged


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def audited(*, hostile: bool = False) -> AuditReport:
    one = judged(hostile=hostile)
    return AuditReport(one.subject, one.against, (), (), (), tuple(one.findings))


Write = Callable[[TextIO], None]
WRITERS: dict[str, Callable[[bool], Write]] = {
    "audit": lambda hostile: lambda out: write_audit(audited(hostile=hostile), out),
    "drift": lambda hostile: lambda out: write_comparison(comparison(hostile=hostile), out),
    "line": lambda hostile: lambda out: write_history(history(hostile=hostile), out),
}


def written(write: Write, out: TextIO | None = None) -> str:
    out = out or io.StringIO()
    write(out)
    return out.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("kind", WRITERS)
def test_hostile_names_do_nothing_to_a_terminal(kind: str) -> None:
    plain = written(WRITERS[kind](True))
    assert not [one for one in plain if one != "\n" and not one.isprintable()]
    shown = written(WRITERS[kind](True), Terminal())
    rest = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert not [one for one in rest if one != "\n" and not one.isprintable()]


@pytest.mark.parametrize("kind", WRITERS)
def test_colours_are_for_a_terminal_that_wants_them(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = WRITERS[kind](False)
    assert "\x1b" not in written(write)
    assert "\x1b[1;31m" in written(write, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", written(write, Terminal()))


@pytest.mark.parametrize("width", [60, 100, 200])
@pytest.mark.parametrize("kind", WRITERS)
def test_lines_fit_a_terminal_and_are_whole_elsewhere(
    kind: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    write = WRITERS[kind](False)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", written(write, Terminal())).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in written(write).splitlines())


def test_a_matrix_that_is_too_wide_is_a_line_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = written(WRITERS["line"](False)).splitlines()
    assert wide[0].split() == ["package", "v1", "v2", "v3", "v4", "(held)", "v5"]
    row = next(line for line in wide if line.startswith("nvidia-nccl-cu13"))
    assert row.split() == ["nvidia-nccl-cu13", "2.29.7", "·", "·", "·", "▲", "2.30.7"]
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    narrow = written(WRITERS["line"](False), Terminal())
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", narrow)
    row = next(line for line in narrow.splitlines() if line.startswith("nvidia-nccl-cu13"))
    assert row.split() == ["nvidia-nccl-cu13", "2.29.7", "v5", "▲", "2.30.7"]


def test_a_drift_tells_severity_direction_layer_and_who_wants_otherwise() -> None:
    lines = written(WRITERS["drift"](False)).splitlines()
    at = next(n for n, line in enumerate(lines) if "nvidia-nccl-cu13" in line)
    assert lines[at].split()[:5] == ["warning", "▲", "up", "nvidia-nccl-cu13", "2.29.7"]
    assert "(layer 4, sm121-chain v4: step 4)" in lines[at]
    assert "torch 2.13.0 wants nvidia-nccl-cu13==2.29.7 (intended)" in lines[at + 1]
    assert "vllm 0.30.0 wants nvidia-nccl-cu13==2.29.7 (new)" in lines[at + 2]
    down = next(line for line in lines if "nvidia-cutlass-dsl" in line)
    assert not down.startswith("error") and "[pin of v5]" in down


def test_a_line_tells_who_wants_otherwise_and_what_is_held() -> None:
    text = written(WRITERS["line"](False))
    assert "v4 held: the parent has it" in text
    assert re.search(
        r"^v5 +torch 2\.13\.0 wants nvidia-nccl-cu13==2\.29\.7 \(intended\)", text, re.M
    )
    assert "still-00" not in text

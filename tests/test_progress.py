"""Progress: plain lines for logs, a bar on a terminal, nothing when asked to be quiet."""

from __future__ import annotations

import io

import pytest

from pipeline.progress import BarProgress, PlainProgress, Progress, progress_on, readable


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1500, "1.5 kB"),
        (2_500_000, "2.5 MB"),
        (4.35e9, "4.35 GB"),
    ],
)
def test_readable(size: float, text: str) -> None:
    assert readable(size) == text


def test_lines_for_a_log_are_few_and_the_last_one_is_whole() -> None:
    stream = io.StringIO()
    progress = progress_on(stream)
    assert isinstance(progress, PlainProgress)
    with progress:
        progress.begin("fetching", 3, 300)
        for _ in range(3):
            progress.moved(100)
            progress.done()
    assert stream.getvalue().splitlines() == [
        "fetching: 0 of 3 files, 0 bytes of 300 bytes",
        "fetching: 3 of 3 files, 300 bytes of 300 bytes",
    ]


def test_quiet_shows_nothing_but_counts() -> None:
    stream = io.StringIO()
    with progress_on(stream, quiet=True) as progress:
        progress.begin("fetching", 1, 10)
        progress.moved(10)
        progress.moved(-10)
        progress.done()
    assert type(progress) is Progress
    assert stream.getvalue() == ""
    assert (progress.files, progress.size) == (1, 0)


def test_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    with progress_on(stream) as progress:
        assert isinstance(progress, BarProgress)
        progress.begin("fetching", 2, 100)
        progress.moved(50)
        progress.done()
    assert "fetching" in stream.getvalue()
    assert "1/2 files" in stream.getvalue()

"""The door of every verb: what no module expected still ends in one line and an exit status."""

import errno
import io
import sys

import pytest

import pipeline.cli.show
from pipeline.cli import main

TROUBLE = [
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    (PermissionError(errno.EACCES, "Permission denied", "/etc/x"), "/etc/x: Permission denied"),
    (MemoryError(), "out of memory"),
    (RuntimeError("can't start new thread"), "can't start new thread"),
    (ImportError("/x.so: failed to map segment from shared object"), "out of memory: /x.so"),
]


@pytest.mark.parametrize(("error", "text"), TROUBLE)
def test_trouble_of_the_machine_is_3_and_no_traceback(
    error: BaseException,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(args: object) -> int:
        raise error

    monkeypatch.setattr(pipeline.cli.show, "run", run)
    assert main(["show"]) == 3
    out, err = capsys.readouterr()
    assert out == "" and f"error: {text}" in err and "Traceback" not in err


@pytest.mark.parametrize("kind", [LookupError, RuntimeError, ImportError])
def test_a_fault_of_the_program_is_not_hidden(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(args: object) -> int:
        raise kind("a fault")

    monkeypatch.setattr(pipeline.cli.show, "run", run)
    with pytest.raises(kind):
        main(["show"])


def test_a_terminal_without_our_letters_gets_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(args: object) -> int:
        print("a \u2192 \udcff")
        return 0

    raw = io.BytesIO()
    monkeypatch.setattr(pipeline.cli.show, "run", run)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1"))
    assert main(["show"]) == 0
    assert raw.getvalue() == b"a \\u2192 \\udcff\n"

"""`replace_file`: a file is whole or as it was, and nothing stays beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble
from pipeline.lock.table import replace_file


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_the_content_is_on_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    synced, renamed = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: (order.append("fsync"), synced(number))[1])
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (order.append("rename"), renamed(self, to))[1]
    )
    replace_file(tmp_path / "a", "x\r\ny")
    assert (tmp_path / "a").read_bytes() == b"x\r\ny"
    assert order == ["fsync", "rename"] and names(tmp_path) == ["a"]


def test_what_utf8_cannot_say_is_escaped(tmp_path: Path) -> None:
    replace_file(tmp_path / "a", "ä\udcff")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa4\\udcff"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_is_left_of_a_write_that_stopped(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("old", encoding="utf-8")

    def stop(number: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises((OutsideTrouble, KeyboardInterrupt)) as caught:
        replace_file(tmp_path / "a", "new")
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_text(encoding="utf-8") == "old"
    if isinstance(caught.value, OutsideTrouble):
        assert "No space left" in caught.value.message
        assert str(caught.value.hint).startswith("make room")


def test_below_a_file_there_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(OutsideTrouble, match="cannot be written: Not a directory"):
        replace_file(tmp_path / "a" / "b", "")


def test_what_killed_writers_left_goes_after_an_hour(tmp_path: Path) -> None:
    for name in (".a.1.new", ".a.22.new", ".a.x.new", ".b.1.new", "a.1.new"):
        (tmp_path / name).touch()
        if name != ".a.22.new":
            os.utime(tmp_path / name, (0, 0))
    replace_file(tmp_path / "a", "")
    assert names(tmp_path) == [".a.22.new", ".a.x.new", ".b.1.new", "a", "a.1.new"]

"""Notes are kept for the next plan of a stage, and believed only if this program found them."""

from pathlib import Path

import pytest

from pipeline.patching.notes import Notes
from pipeline.steps import noted
from pipeline.steps.noted import keep_notes, read_notes


def kept(cache: Path) -> Path:
    (file,) = (cache / "notes").iterdir()
    return file


def test_the_last_run_of_a_stage_is_kept(tmp_path: Path) -> None:
    first = Notes()
    first.note("scope f in .py", b"text", [1, 2])
    keep_notes(tmp_path, "v1", first)
    second = read_notes(tmp_path, "v1")
    assert second.recall("scope f in .py", b"text") == [1, 2]
    assert second.recall("scope f in .py", b"texts") is None
    assert second.recall("scope g in .py", b"text") is None
    assert read_notes(tmp_path, "v2").known == {}
    # What a run does not ask for is forgotten: an edit's notes do not pile up.
    third = read_notes(tmp_path, "v1")
    third.note("scope f in .py", b"other", [3, 4])
    keep_notes(tmp_path, "v1", third)
    assert len(read_notes(tmp_path, "v1").known) == 1


def test_what_another_program_found_or_was_damaged_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = Notes()
    notes.note("scope f in .py", b"text", [1, 2])
    keep_notes(tmp_path, "v1", notes)
    good = kept(tmp_path).read_bytes()
    kept(tmp_path).write_bytes(good.replace(b"[1,2]", b"[1,3]"))
    assert read_notes(tmp_path, "v1").known == {}
    kept(tmp_path).write_bytes(good)
    monkeypatch.setattr(noted, "_found_by", lambda: "another")
    assert read_notes(tmp_path, "v1").known == {}


def test_nothing_is_kept_where_there_is_no_cache_or_nothing_new(tmp_path: Path) -> None:
    notes = Notes()
    notes.note("q", b"text", 1)
    keep_notes(None, "v1", notes)
    assert read_notes(None, "v1").known == {}
    keep_notes(tmp_path, "v1", notes)
    before = kept(tmp_path).stat().st_ino
    again = read_notes(tmp_path, "v1")
    assert again.recall("q", b"text") == 1
    keep_notes(tmp_path, "v1", again)
    assert kept(tmp_path).stat().st_ino == before

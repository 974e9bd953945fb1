"""What is pruned from a cache, and what stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.engines.unused import prune, use


def output(cache: Path, name: str) -> Path:
    place = cache / "steps" / name
    place.mkdir(parents=True)
    (place / "result.json").write_text("{}")
    return place


def toolbox(cache: Path, name: str) -> Path:
    place = cache / "toolbox" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("x")
    return place


def modules(cache: Path, name: str) -> Path:
    place = cache / "modules" / name
    place.mkdir(parents=True)
    (place / "errors.py").write_text("")
    return place


def test_outputs_unused_for_weeks_are_pruned(tmp_path: Path) -> None:
    old, new = output(tmp_path, "a"), output(tmp_path, "b")
    os.utime(old / "result.json", (0, 0))
    prune(tmp_path)
    assert not old.exists() and new.exists()


@pytest.mark.parametrize("make", [toolbox, modules])
def test_what_an_engine_was_sent_is_pruned_when_it_is_unused(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    forgotten, used, fresh = (make(tmp_path, name) for name in "abc")
    for place in (forgotten, used):
        use(place)
        os.utime(place, (0, 0))
    before = used.stat().st_mtime_ns
    os.utime(forgotten.with_name("a.used"), (0, 0))
    use(used)
    prune(tmp_path)
    assert sorted(path.name for path in used.parent.iterdir()) == ["b", "b.used", "c"]
    assert used.stat().st_mtime_ns == before  # or it would be sent again
    assert fresh.exists()


def test_a_cache_of_nothing_and_locked_files_stay(tmp_path: Path) -> None:
    prune(tmp_path / "none")
    file = tmp_path / "files" / "sha256" / "ab"
    file.parent.mkdir(parents=True)
    file.write_text("x")
    os.utime(file, (0, 0))
    prune(tmp_path)
    assert file.exists()

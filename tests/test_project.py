"""Whether a project looks edited: a guess from times, to start processes ahead."""

import os
from pathlib import Path

import pytest

from pipeline.project import Project


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("pins.toml", "stages/v1.toml", "patches/p.toml", "dist/index.json"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("")
    for place in (tmp_path, *tmp_path.rglob("*")):
        os.utime(place, (1000, 1000))
    os.utime(tmp_path / "dist/index.json", (2000, 2000))
    return tmp_path


def test_nothing_is_newer_than_what_was_made(root: Path) -> None:
    assert not Project(root).is_edited_since(root / "dist/index.json")


@pytest.mark.parametrize("name", ["pins.toml", "stages/v1.toml", "patches/p.toml", "patches"])
def test_an_edited_file_is_newer(root: Path, name: str) -> None:
    os.utime(root / name, (3000, 3000))
    assert Project(root).is_edited_since(root / "dist/index.json")


@pytest.mark.parametrize("name", ["pins.toml", "dist/index.json"])
def test_what_is_missing_counts_as_edited(root: Path, name: str) -> None:
    (root / name).unlink()
    assert Project(root).is_edited_since(root / "dist/index.json")

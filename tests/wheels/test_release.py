"""Releases that no lock names: pip brings them once, the cache remembers them."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.progress import Progress
from pipeline.wheels.house import Wheelhouse
from pipeline.wheels.release import Release, fetch_release
from pipeline.wheels.target import Target
from tests.wheels.makewheel import make_wheel

TAG = "cp38-abi3-manylinux_2_28_aarch64"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that pip takes for its only index."""
    directory = tmp_path / "index"
    directory.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return directory


def fetch(house: Wheelhouse, version: str = "1.0") -> Release:
    return fetch_release("my-pkg", Version(version), Target(), house, Progress())


def test_fetched_once_and_remembered(index: Path, tmp_path: Path) -> None:
    wheel = make_wheel(index, "my-pkg", "1.0", {"a.py": "x = 1\n"}, tag=TAG)
    make_wheel(index, "my-pkg", "2.0", {"a.py": "x = 2\n"}, tag=TAG)
    house = Wheelhouse(tmp_path / "cache")
    release = fetch(house)
    assert release.filename == wheel.name
    assert house.path(release.sha256).read_bytes() == wheel.read_bytes()
    wheel.unlink()
    assert fetch(house) == release
    assert list((tmp_path / "cache" / "tmp").iterdir()) == []


def test_damaged_in_the_cache_is_fetched_again(index: Path, tmp_path: Path) -> None:
    make_wheel(index, "my-pkg", "1.0", {"a.py": "x = 1\n"}, tag=TAG)
    house = Wheelhouse(tmp_path / "cache")
    release = fetch(house)
    stored = house.path(release.sha256)
    stored.chmod(0o644)
    stored.write_bytes(b"other")
    assert fetch(house) == release
    (note,) = (tmp_path / "cache" / "releases" / "my-pkg").iterdir()
    note.write_text("[]", encoding="utf-8")
    assert fetch(house) == release


@pytest.mark.parametrize("tag", ["cp38-abi3-manylinux_2_28_x86_64", "cp314-cp314-linux_aarch64"])
def test_no_wheel_for_the_target(index: Path, tmp_path: Path, tag: str) -> None:
    make_wheel(index, "my-pkg", "1.0", {"a.py": "x = 1\n"}, tag=tag)
    with pytest.raises((Refusal, OutsideTrouble), match=r"my-pkg 1\.0"):
        fetch(Wheelhouse(tmp_path / "cache"))


def test_no_such_version(index: Path, tmp_path: Path) -> None:
    make_wheel(index, "my-pkg", "1.0", {"a.py": "x = 1\n"})
    with pytest.raises((Refusal, OutsideTrouble), match="my-pkg 3"):
        fetch(Wheelhouse(tmp_path / "cache"), "3")

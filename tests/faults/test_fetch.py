"""A fetch that is killed at any point, or runs out of disk: the next one is right."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.fetch import needed_wheels
from pipeline.pins import load_lock
from pipeline.stage_files import load_chain
from pipeline.transfer.workspace import sweep
from tests.faults.points import Command, killed, one_clear_error, small_disk
from tests.line import Line, make_line


@pytest.fixture
def line(tmp_path: Path, site: Any, pip_asks: None) -> Line:
    """The small line, whose cache is empty and whose files are on the loopback."""
    made = make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")
    lock, store = load_lock(made.root / "pins.toml"), made.cache / "files" / "sha256"
    for wheel in needed_wheels(lock, load_chain(made.root / "stages"), "wheels", None):
        site.publish(wheel, (store / wheel.sha256).read_bytes())
    for deb in lock.base("wheels").debs:
        site.files[f"/debian/{deb.path}"] = (store / deb.sha256).read_bytes()
    shutil.rmtree(made.cache)
    return made


def fetching(line: Line, site: Any) -> Callable[[Path], Command]:
    args = ("fetch", "-q", "--debian-mirror", f"{site.url}/debian")
    return lambda cache: Command(args, line.root, {"SM121_CHAIN_CACHE": str(cache)})


def names(cache: Path) -> set[str]:
    """What is in the store; each file must be what its name says."""
    store = cache / "files" / "sha256"
    found = list(store.iterdir()) if store.is_dir() else []
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in found)
    return {path.name for path in found}


def locked(line: Line) -> set[str]:
    lock = load_lock(line.root / "pins.toml")
    wheels = needed_wheels(lock, load_chain(line.root / "stages"), "wheels", None)
    return {one.sha256 for one in (*wheels, *lock.base("wheels").debs)}


def test_killed_at_random_points(line: Line, site: Any, tmp_path: Path) -> None:
    command, wanted = fetching(line, site), locked(line)

    def check(number: int, done: subprocess.CompletedProcess[str]) -> None:
        cache = tmp_path / f"cache{number}"
        assert done.returncode == 0, done.stderr
        assert names(cache) == wanted
        if list((cache / "tmp").iterdir()):
            # A pip of the run that was killed was still writing when its directory was swept. It
            # ends with the next thing that it says; then the next sweep finds what it left.
            time.sleep(5)
            sweep(cache)
            assert not list((cache / "tmp").iterdir())
        house = line.root / "wheelhouse"
        assert sorted(path.name for path in house.iterdir()) == sorted(line.wheels)
        shutil.rmtree(cache)
        shutil.rmtree(house)

    def torn(number: int) -> None:
        assert names(tmp_path / f"cache{number}") <= wanted

    killed(lambda number: command(tmp_path / f"cache{number}"), check, torn)


def test_disk_that_fills_up(line: Line, site: Any, tmp_path: Path) -> None:
    """Without room from the start; what fills up meanwhile is a test of its own in transfer/."""
    command = fetching(line, site)
    with small_disk(tmp_path / "disk", 64) as disk:
        one_clear_error(command(disk).run(), 3)
        assert names(disk) <= locked(line)
        subprocess.run(["mount", "-o", "remount,size=256m", str(disk)], check=True)
        done = command(disk).run()
        assert done.returncode == 0, done.stderr
        assert names(disk) == locked(line)

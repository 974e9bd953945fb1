"""The whole fetch step: interrupted, offline, on a full disk, on a read-only cache, twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.pins import LockedDeb, LockedWheel
from pipeline.transfer import fetch as module
from pipeline.transfer.fetch import Fetched, fetch_all
from pipeline.wheels.house import Wheelhouse

Make = Callable[..., tuple[LockedWheel, bytes]]

_FETCHER = """
import sys
from pathlib import Path
from pipeline.pins import LockedWheel
from pipeline.transfer.fetch import fetch_all
from pipeline.wheels.house import Wheelhouse
wheels = [LockedWheel(*line.split()[:3], int(line.split()[3]), line.split()[4])
          for line in Path(sys.argv[2]).read_text().splitlines()]
fetch_all(wheels, Wheelhouse(Path(sys.argv[1])), python="3.11", dated="today", jobs=2)
"""


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "cache")


def bring(house: Wheelhouse, artifacts: Any, **options: Any) -> Fetched:
    return fetch_all(artifacts, house, python="3.11.2", dated="today", jobs=2, **options)


def published(site: Any, make: Make, count: int) -> list[LockedWheel]:
    pairs = [make(f"p{i}", "1.0", text="x" * 100 * i) for i in range(count)]
    for wheel, data in pairs:
        site.publish(wheel, data)
    return [wheel for wheel, _ in pairs]


def test_wheels_and_debs_come_once(
    site: Any, house: Wheelhouse, pip_asks: None, tiny_wheel: Make
) -> None:
    wheels = published(site, tiny_wheel, 2)
    deb = LockedDeb("z", "1", "pool/main/z/z/z_1_arm64.deb", 1, hashlib.sha256(b"z").hexdigest())
    site.files[f"/debian/{deb.path}"] = b"z"
    size = sum(w.size or 0 for w in wheels) + 1
    mirror = f"{site.url}/debian"
    first = bring(house, [*wheels, deb, *wheels], debian_mirror=mirror)
    assert first == Fetched(kept=0, came=3, size=size, came_size=size, warnings=())
    asked = len(site.asked)
    second = bring(house, [*wheels, deb], debian_mirror=mirror)
    assert second == Fetched(kept=3, came=0, size=size, came_size=0, warnings=())
    assert len(site.asked) == asked
    assert bring(house, [*wheels, deb], offline=True) == second


def test_all_faults_are_told_at_once_and_a_refusal_weighs_most(
    site: Any, house: Wheelhouse, pip_asks: None, tiny_wheel: Make
) -> None:
    good = published(site, tiny_wheel, 1)
    gone = [tiny_wheel(name, "1.0")[0] for name in ("lost", "deleted")]
    deb = LockedDeb("z", "1", "pool/main/z/z/z_1_arm64.deb", 1, "0" * 64)
    with pytest.raises(Refusal) as refused:
        bring(house, [*good, *gone, deb], debian_mirror="http://127.0.0.1:9")
    said = "\n".join([refused.value.message, *refused.value.details])
    assert refused.value.message.startswith("gone: deleted-1.0-py3-none-any.whl")
    assert "(and 2 more)" in refused.value.message
    assert "gone: lost-1.0-py3-none-any.whl" in said
    assert "not fetched: pool/main/z/z/z_1_arm64.deb" in said
    assert "1 other files came and are kept" in said
    assert house.missing(good) == []


def test_offline_lists_everything_that_is_missing(house: Wheelhouse, tiny_wheel: Make) -> None:
    wheels = [tiny_wheel(name, "1.0")[0] for name in ("b", "a")]
    deb = LockedDeb("z", "1", "pool/main/z/z/z_1_arm64.deb", 2_500_000, "0" * 64)
    with pytest.raises(OutsideTrouble, match="3 locked files are not in") as trouble:
        bring(house, [*wheels, deb], offline=True)
    assert [line.split()[0] for line in trouble.value.details] == [
        "a-1.0-py3-none-any.whl",
        "b-1.0-py3-none-any.whl",
        "z_1_arm64.deb",
    ]
    assert trouble.value.details[2] == "z_1_arm64.deb (2.5 MB)"
    assert not house.cache.exists()


def test_spoilt_file_of_the_store_is_fetched_again(
    site: Any, house: Wheelhouse, pip_asks: None, tiny_wheel: Make
) -> None:
    wheels = published(site, tiny_wheel, 2)
    bring(house, wheels)
    spoilt = house.path(wheels[1].sha256)
    spoilt.chmod(0o644)
    spoilt.write_bytes(b"spoilt")
    again = bring(house, wheels)
    assert (again.kept, again.came) == (1, 1)
    assert hashlib.sha256(spoilt.read_bytes()).hexdigest() == wheels[1].sha256


def test_too_small_disk_is_said_before_anything_is_fetched(
    site: Any,
    house: Wheelhouse,
    pip_asks: None,
    tiny_wheel: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(9, 8, 1))
    big = LockedWheel("big", "1", "big-1-py3-none-any.whl", 3_000_000_000, "0" * 64)
    with pytest.raises(OutsideTrouble) as trouble:
        bring(house, [big])
    assert "6.06 GB are needed" in trouble.value.message
    assert "1 bytes are free" in trouble.value.message
    assert "SM121_CHAIN_CACHE" in (trouble.value.hint or "")
    assert site.asked == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB; mounting one takes root."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("not allowed to mount a small file system here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_disk_that_fills_up_is_outside_trouble(
    site: Any,
    small_disk: Path,
    pip_asks: None,
    tiny_wheel: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_MARGIN", -(10**9))  # somebody else fills it meanwhile
    wheel, data = tiny_wheel("big", "1.0", text="x" * 400_000)
    site.publish(wheel, data)
    house = Wheelhouse(small_disk)
    with pytest.raises(OutsideTrouble) as trouble:
        bring(house, [wheel])
    assert "No space left on device" in trouble.value.message
    assert "make room" in (trouble.value.hint or "")
    assert house.missing([wheel]) == [wheel]
    assert list((small_disk / "tmp").iterdir()) == []


@contextlib.contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Make a directory read-only: by a mount as root, by its modes otherwise."""
    if os.geteuid() == 0:
        bind = ["mount", "--bind", str(place), str(place)]
        if subprocess.run(bind, capture_output=True).returncode != 0:
            pytest.skip("not allowed to mount anything here")
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
        yield
        subprocess.run(["umount", str(place)], check=True)
    else:
        folders = [place, *(p for p in place.rglob("*") if p.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        yield
        for folder in folders:
            folder.chmod(0o755)


@pytest.mark.parametrize("recorded", [True, False])
def test_read_only_cache_works_when_all_is_there(
    site: Any, house: Wheelhouse, pip_asks: None, tiny_wheel: Make, recorded: bool
) -> None:
    wheels = published(site, tiny_wheel, 2)
    bring(house, wheels)
    if not recorded:  # a cache that was copied here from elsewhere
        shutil.rmtree(house.cache / "verified")
    absent, _ = tiny_wheel("absent", "1.0")
    with read_only(house.cache):
        assert bring(house, wheels).kept == 2
        with pytest.raises(OutsideTrouble, match="cannot be written"):
            bring(house, [absent])


def test_two_processes_on_one_cache(
    site: Any, house: Wheelhouse, pip_asks: None, tiny_wheel: Make
) -> None:
    wheels = published(site, tiny_wheel, 8)
    results: list[Fetched] = []
    threads = [
        threading.Thread(target=lambda: results.append(bring(Wheelhouse(house.cache), wheels)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.kept + r.came for r in results] == [8, 8]
    assert house.missing(wheels) == []


@pytest.fixture
def interrupted(
    site: Any, house: Wheelhouse, pip_asks: None, tiny_wheel: Make, tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], list[LockedWheel]]]:
    """A fetch in its own process that has one big file done and hangs in the middle of another."""
    text = os.urandom(700_000).hex()
    pairs = [tiny_wheel(n, "1.0", text=text[i:]) for i, n in enumerate(("done", "hangs"))]
    for wheel, data in pairs:
        site.publish(wheel, data)
    wheels = [wheel for wheel, _ in pairs]
    site.slow.add(f"/files/{wheels[1].filename}")
    # Sizes so large that each file has a pip of its own.
    listed = tmp_path / "list"
    listed.write_text(
        "".join(f"{w.name} {w.version} {w.filename} {w.size} {w.sha256}\n" for w in wheels),
        encoding="utf-8",
    )
    code = "import pipeline.wheels.fetch as f; f._BATCH_FILES = 1\n" + _FETCHER
    with subprocess.Popen(
        [sys.executable, "-c", code, str(house.cache), str(listed)],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        until(lambda: house.has(wheels[0].sha256))
        until(lambda: f"/files/{wheels[1].filename}" in site.asked)
        yield process, wheels
        process.kill()


def until(true: Callable[[], bool]) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.05)
    pytest.fail("it did not happen within 30 s")


def children_of(pid: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if f"\nPPid:\t{pid}\n" in (place / "status").read_text(encoding="utf-8"):
                found.append(int(place.name))
    return found


def test_killed_run_keeps_what_was_done_and_leaves_nothing_behind(
    site: Any, house: Wheelhouse, interrupted: tuple[subprocess.Popen[str], list[LockedWheel]]
) -> None:
    process, wheels = interrupted
    orphans = children_of(process.pid)
    assert orphans
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(list((house.cache / "tmp").iterdir())) == 1
    assert house.missing(wheels) == [wheels[1]]
    site.release.set()  # the orphan's next progress finds nobody
    until(lambda: not any(alive(pid) for pid in orphans))
    again = bring(house, wheels)
    assert (again.kept, again.came) == (1, 1)
    assert list((house.cache / "tmp").iterdir()) == []


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return "\nState:\tZ" not in status


def test_ctrl_c_ends_the_processes_and_cleans_up(
    house: Wheelhouse, interrupted: tuple[subprocess.Popen[str], list[LockedWheel]]
) -> None:
    process, wheels = interrupted
    pips = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert said.rstrip().endswith("KeyboardInterrupt")  # the program's door makes it a 130
    assert not any(alive(pid) for pid in pips)
    assert list((house.cache / "tmp").iterdir()) == []
    assert house.missing(wheels) == [wheels[1]]

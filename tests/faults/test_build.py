"""A build that is killed at any point, or runs out of disk or memory: the next one is right."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.points import POINTS, ROOT, Command, killed, one_clear_error, small_disk
from tests.line import Line, make_line
from tests.oci.readimage import read_image


@pytest.fixture
def line(tmp_path: Path) -> Line:
    return make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")


def build(line: Line, cache: Path, out: Path, *args: str) -> Command:
    args = ("build", "--offline", "--out", str(out), *args)
    return Command(args, line.root, {"SM121_CHAIN_CACHE": str(cache)})


def tags(lines: str) -> list[str]:
    return [line.split()[0] for line in lines.splitlines() if " held " not in line]


def test_killed_at_random_points(line: Line, tmp_path: Path) -> None:
    right: list[str] = []

    def command(number: int) -> Command:
        cache = tmp_path / f"cache{number}"
        if not cache.exists():
            shutil.copytree(line.cache, cache)
        return build(line, cache, tmp_path / f"out{number}")

    def check(number: int, done: subprocess.CompletedProcess[str]) -> None:
        assert done.returncode == 0, done.stderr
        right[:] = right or [done.stdout]
        assert done.stdout == right[0]
        cache, out = tmp_path / f"cache{number}", tmp_path / f"out{number}"
        for tag in tags(done.stdout):
            read_image(out, tag).verify()
        assert not list((cache / "tmp").iterdir())
        assert not list(out.rglob(".tmp-*"))
        if number:
            shutil.rmtree(cache)
            shutil.rmtree(out)

    killed(command, check)


def sizes(free: int) -> Iterator[int]:
    """Room beside the cache's own files, in KiB, from none to nearly enough."""
    yield from range(4, free, max(1, free // min(12, POINTS)))


def test_disk_that_fills_up(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else takes the space that was there when the build asked for it."""
    whole = build(line, line.cache, tmp_path / "whole").run()
    assert whole.returncode == 0, whole.stderr
    used = sum(path.stat().st_blocks for path in line.cache.rglob("*") if path.is_file()) // 2
    before = sum(p.stat().st_blocks for p in (line.cache / "files").rglob("*") if p.is_file()) // 2
    # What asks for space beforehand is told that there is plenty.
    blind = tmp_path / "blind"
    blind.mkdir()
    (blind / "sitecustomize.py").write_text(
        "import collections, shutil\n"
        "shutil.disk_usage = lambda path: collections.namedtuple('U', 'total used free')"
        "(2**50, 0, 2**50)\n",
        encoding="utf-8",
    )
    full = 0
    for number, room in enumerate(sizes(used - before)):
        with small_disk(tmp_path / f"disk{number}", before + 64 + room) as disk:
            shutil.copytree(line.cache / "files", disk / "files")
            command = build(line, disk, tmp_path / f"out{number}", "--jobs", "1")
            env = {**command.env, "PYTHONPATH": f"{blind}:{ROOT}", "TMPDIR": str(disk)}
            done = Command(command.args, command.cwd, env).run()
            if done.returncode == 0:
                continue
            full += 1
            one_clear_error(done, 3, "No space left on device", "make room")
            assert not [path for path in disk.glob("tmp/*") if any(path.iterdir())]
            # With room, what is there is taken up and the lines are the same.
            larger = ["mount", "-o", "remount,size=64m", str(disk)]
            subprocess.run(larger, check=True)
            again = command.run()
            assert (again.returncode, again.stdout) == (0, whole.stdout), again.stderr
    assert full >= min(6, POINTS - 1)


def test_too_little_address_space(line: Line, tmp_path: Path) -> None:
    """Whatever a limit breaks, in the program or in its workers, is one error of status 3."""
    failed = 0
    for mebibytes in (60, 100, 150, 200, 230, 260, 290):
        limit = mebibytes * 1024 * 1024
        command = build(line, tmp_path / f"cache{mebibytes}", tmp_path / f"out{mebibytes}")
        shutil.copytree(line.cache, tmp_path / f"cache{mebibytes}")
        done = command.run(lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit,) * 2))
        if done.returncode:
            failed += 1
            one_clear_error(done, 3)
    assert failed

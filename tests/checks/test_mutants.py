"""Changes that a mutation run tries: found, put in the place of what runs, and noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="mutmut is installed for `nox -s mutation` only")

from checks import forks
from checks.mutants import find_mutants

SAMPLE = '''
from functools import cache, cached_property


class Base:
    def twice(self, number):
        return number * 2


class Sample(Base):
    def twice(self, number):
        """Beside its base's."""
        return super().twice(number) + 1

    @property
    def plain(self):
        return 3

    @cached_property
    def kept(self):
        return 4

    @staticmethod
    def still(number=5):
        return number


@cache
def answer(flag):
    if flag:
        return 6
    raise ValueError("no flag")
'''


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sample_of_mutants.py").write_text(SAMPLE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sample_of_mutants", raising=False)
    return tmp_path


def changes(root: Path) -> dict[str, set[str]]:
    """What each function becomes."""
    found: dict[str, set[str]] = {}
    for one in find_mutants(root, "sample_of_mutants.py"):
        added = [line[1:].strip() for line in one.diff.splitlines() if line.startswith("+")]
        found.setdefault(one.function, set()).update(added)
    return found


def test_what_is_changed(sample: Path) -> None:
    assert changes(sample) == {
        "Base.twice": {"return number / 2", "return number * 3"},
        "Sample.twice": {
            "return super().twice(number) - 1",
            "return super().twice(number) + 2",
        },
        "Sample.plain": {"return 4"},
        "Sample.kept": {"return 5"},
        "Sample.still": {"def still(number=6):"},
        "answer": {"if not (flag):", "return 7", "pass"},
    }


def test_a_change_takes_the_place_of_what_runs(sample: Path, tmp_path: Path) -> None:
    import sample_of_mutants as module  # type: ignore[import-not-found]

    def state() -> list[object]:
        one = module.Sample()
        try:
            absent: object = module.answer.__wrapped__(False)
        except ValueError:
            absent = "refused"
        there = module.answer.__wrapped__(True)
        return [one.twice(1), one.plain, one.kept, one.still(), there, absent]

    before = state()
    mutants = list(find_mutants(sample, "sample_of_mutants.py"))
    assert len({mutant.key for mutant in mutants}) == len(mutants)

    def noticed(index: int) -> int:
        mutants[index].apply()
        return int(state() != before)

    for index, mutant in enumerate(mutants):
        status = forks.in_fork(lambda index=index: noticed(index), 10, tmp_path / "log")
        assert status == 1, mutant.name
    assert state() == before


def test_a_call_that_never_ends_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "_QUIET", 1)

    def busy() -> int:
        while True:
            pass

    def waiting() -> int:
        import threading

        threading.Event().wait()
        return 0

    assert forks.in_fork(busy, 0, tmp_path / "log") == forks.STUCK
    assert forks.in_fork(waiting, 60, tmp_path / "log") == forks.STUCK
    assert forks.in_fork(lambda: 0, 60, tmp_path / "log") == 0

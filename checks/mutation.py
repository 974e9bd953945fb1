"""Change the program in one place after another, and see which change no test notices.

    nox -s mutation                            everything that pyproject.toml names
    nox -s mutation -- "pipeline.oci.*"        one part
    nox -s mutation -- --again "pipeline.*"    what survived, once more (tests have come since)
    nox -s mutation -- results                 counts a module, and what survived
    nox -s mutation -- show MUTANT             what one of them changed

The tests are imported once. Each of them is run with its lines written down; then a process is
forked for each change, which runs the tests that reach the line, and ends with the first that
fails: those first that noticed a change of the same function, then the fast before the slow. What
was found is kept in .mutation/, and counts as long as the function has not changed.
`checks/mutants.py` says what is changed, `docs/mutation.md` lists the known survivors.
"""

from __future__ import annotations

import collections
import fnmatch
import gc
import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checks import forks
from checks.mutants import Mutant, find_mutants
from checks.reach import Reach, inputs_digest, run_until_failure, write_reach

ROOT = Path(__file__).parents[1]
STATE = ROOT / ".mutation"
KILLED, SURVIVED, UNREACHED, IMPOSSIBLE, TIMEOUT = (
    "killed", "survived", "unreached", "impossible", "timeout",
)  # fmt: skip
_STATUS = {0: SURVIVED, 1: KILLED, forks.IMPOSSIBLE: IMPOSSIBLE, forks.STUCK: TIMEOUT}


def settings() -> dict[str, Any]:
    """[tool.mutation] of pyproject.toml: `files`, `tests` and `slow`, which are not run."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["tool"]["mutation"]
    return found


def sources() -> list[str]:
    """The files to change, relative to the root."""
    found = {path for pattern in settings()["files"] for path in ROOT.glob(pattern)}
    return sorted(str(path.relative_to(ROOT)) for path in found)


def pytest_arguments(base: str) -> list[str]:
    """How pytest is called, here and in each fork."""
    chosen = settings()
    slow = [f"--deselect={name}" for name in chosen["slow"]]
    options = ["-o", "tmp_path_retention_policy=none", f"--basetemp={base}"]
    options += ["-o", "addopts=--import-mode=importlib", "--hypothesis-profile=mutation"]
    return [*chosen["tests"], *slow, *options, "-p", "no:cacheprovider", "-p", "no:terminal"]


class Findings:
    """What was found for a file's changes, kept from run to run: key -> what is known."""

    def __init__(self, path: str):
        self._file = STATE / (path.replace("/", ".") + ".json")
        known = self._file.read_text(encoding="utf-8") if self._file.exists() else "{}"
        self.known: dict[str, dict[str, Any]] = json.loads(known)

    def keep(self, mutant: Mutant, status: str, test: str) -> None:
        """Write one down; a run that is ended loses nothing."""
        found = {"status": status, "name": mutant.name, "test": test}
        self.known[mutant.key] = found
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(self.known, indent=1), encoding="utf-8")
        new.replace(self._file)

    def forget(self, mutants: Iterable[Mutant]) -> None:
        """Drop what is known of changes that are no more."""
        keys = {one.key for one in mutants}
        self.known = {key: found for key, found in self.known.items() if key in keys}


@dataclass
class Runner:
    """pytest's plugin: takes the place of its loop over the tests."""

    patterns: Sequence[str]
    again: bool
    scratch: Path

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every change that is asked for and not known yet."""
        if session.testsfailed:
            raise SystemExit("the tests cannot be imported")
        items = {item.nodeid: item for item in session.items}
        STATE.mkdir(exist_ok=True)
        written = STATE / f"reach-{inputs_digest(ROOT)}.json"
        gc.collect()
        gc.freeze()  # a fork shares what is not touched
        if not written.exists():
            told = f"{len(items)} tests: writing down what each reaches"
            print(told, file=sys.stderr, flush=True)
            forks.in_fork(
                lambda: write_reach(session.items, ROOT, sources(), written),
                3600,
                self.scratch / "output",
            )
        if not written.exists():
            raise SystemExit((self.scratch / "output").read_text(encoding="utf-8"))
        reach = Reach(**json.loads(written.read_text(encoding="utf-8")))
        if reach.failed:
            raise SystemExit("fail without a change: " + " ".join(reach.failed))
        for path in in_order(self.patterns):
            self._file(path, items, reach)
        return True

    def _file(self, path: str, items: dict[str, pytest.Item], reach: Reach) -> None:
        mutants = list(find_mutants(ROOT, path))
        findings = Findings(path)
        findings.forget(mutants)
        wanted = [one for one in mutants if wants(self.patterns, one)]
        recent: dict[str, list[str]] = collections.defaultdict(list)
        counts: collections.Counter[str] = collections.Counter()
        for mutant in wanted:
            known = findings.known.get(mutant.key, {}).get("status")
            if known and not (self.again and known not in (KILLED, TIMEOUT)):
                counts["known"] += 1
                continue
            tests = reach.tests(mutant)
            first = recent[mutant.function]
            order = sorted(
                tests,
                key=lambda test: (
                    first.index(test) if test in first else len(first), reach.seconds[test], test
                ),
            )  # fmt: skip
            status, test = self._try(mutant, [items[name] for name in order], reach)
            if test:
                first[:] = [test, *(one for one in first if one != test)][:5]
            counts[status] += 1
            findings.keep(mutant, status, test)
        if wanted:
            said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            print(f"{path}: {said}", file=sys.stderr, flush=True)

    def _try(self, mutant: Mutant, items: list[pytest.Item], reach: Reach) -> tuple[str, str]:
        if not items:
            return UNREACHED, ""
        told = self.scratch / "told"
        told.unlink(missing_ok=True)

        def work() -> int:
            mutant.apply()
            return run_until_failure(items, told)

        seconds = 3 + 3 * sum(reach.seconds[item.nodeid] for item in items)
        status = forks.in_fork(work, seconds, self.scratch / "output")
        # Whatever else ends the process is noticed too: a signal, a limit.
        found = _STATUS.get(status, KILLED)
        return found, told.read_text(encoding="utf-8") if told.exists() else ""


def in_order(patterns: Sequence[str]) -> list[str]:
    """The files, those first that the first pattern names."""

    def place(path: str) -> int:
        module = path.removesuffix(".py").replace("/", ".")
        hits = [n for n, one in enumerate(patterns) if fnmatch.fnmatchcase(module, one)]
        return min(hits, default=len(patterns))

    return sorted(sources(), key=lambda path: (place(path), path))


def wants(patterns: Sequence[str], mutant: Mutant) -> bool:
    """Is it asked for: by its name, its module, or a pattern of either."""
    names = (mutant.module, mutant.name)
    return not patterns or any(fnmatch.fnmatchcase(n, p) for n in names for p in patterns)


def run(patterns: Sequence[str], again: bool) -> int:
    """Try what is asked for."""
    scratch = Path(tempfile.mkdtemp(prefix="mutation-"))
    try:
        os.chdir(ROOT)
        # What a test's own bytes of the program say is for programs that it starts.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        arguments = pytest_arguments(str(scratch / "tests"))
        return int(pytest.main(arguments, plugins=[Runner(patterns, again, scratch)]))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def results(patterns: Sequence[str]) -> int:
    """Print the counts of each file, and every change that was tried and not noticed."""
    left = []
    for path in sources():
        findings = Findings(path)
        counts: collections.Counter[str] = collections.Counter()
        for mutant in find_mutants(ROOT, path):
            if wants(patterns, mutant):
                status = findings.known.get(mutant.key, {}).get("status", "not tried")
                counts[status] += 1
                if status not in (KILLED, TIMEOUT, "not tried"):
                    left.append((status, mutant))
        if counts:
            said = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            print(f"{path}: {counts.total()}: {said}")
    for status, mutant in left:
        print(f"\n{mutant.name} (line {mutant.lines.start}): {status}\n{mutant.diff}")
    return 0


def show(names: Sequence[str]) -> int:
    """Print what changes change."""
    for path in sources():
        for mutant in find_mutants(ROOT, path):
            if mutant.name in names:
                print(f"{mutant.name} (line {mutant.lines.start})\n{mutant.diff}")
    return 0


def main(args: Sequence[str]) -> int:
    """Without a command, the changes are tried."""
    verbs = {"results": results, "show": show}
    if args and args[0] in verbs:
        return verbs[args[0]](args[1:])
    return run([arg for arg in args if arg != "--again"], "--again" in args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

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
import contextlib
import fnmatch
import gc
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest

from checks.mutants import CannotChange, Mutant, find_mutants

ROOT = Path(__file__).parents[1]
STATE = ROOT / ".mutation"
KILLED, SURVIVED, UNREACHED, IMPOSSIBLE, TIMEOUT = (
    "killed", "survived", "unreached", "impossible", "timeout",
)  # fmt: skip
_STATUS = {0: SURVIVED, 1: KILLED, 4: IMPOSSIBLE}
_MEMORY, _FILE = 4 << 30, 1 << 30  # bytes: what a change that never ends may take
_QUIET = 10  # seconds in which nothing of a test runs, so that it waits for ever


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


@dataclass
class Reach:
    """Which tests reach a line (`lines`: file, line, tests), and each one's `seconds` of processor
    time: others may have the machine meanwhile."""

    lines: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def tests(self, mutant: Mutant) -> set[str]:
        """The tests that reach the statement of a change."""
        lines = self.lines.get(mutant.path, {})
        return {test for line in mutant.lines for test in lines.get(str(line), ())}


def inputs_digest() -> str:
    """Equal as long as the program and its tests are."""
    found = [path for top in ("pipeline", "tests") for path in (ROOT / top).rglob("*.py")]
    texts = [str(path).encode() + b"\0" + path.read_bytes() for path in sorted(found)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def write_reach(items: Sequence[pytest.Item], path: Path) -> int:
    """Run every test in this process and write down what it reaches; return 0."""
    reach = Reach(seconds={item.nodeid: 0.0 for item in items})
    watch = coverage.Coverage(
        data_file=None, source=[str(ROOT / "pipeline")], config_file=False, messages=False
    )

    class Watcher:
        def pytest_runtest_logstart(self, nodeid: str) -> None:
            watch.switch_context(nodeid)
            reach.seconds[nodeid] -= time.process_time()

        def pytest_runtest_logfinish(self, nodeid: str) -> None:
            reach.seconds[nodeid] += time.process_time()

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                reach.failed.append(report.nodeid)

    manager = items[0].config.pluginmanager
    manager.register(Watcher())
    watch.start()
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    watch.stop()
    data = watch.get_data()
    for name in sources():
        found = data.contexts_by_lineno(str(ROOT / name))
        reach.lines[name] = {str(line): [t for t in tests if t] for line, tests in found.items()}
    new = path.with_suffix(".new")
    new.write_text(json.dumps(vars(reach)), encoding="utf-8")
    new.replace(path)
    return 0


def run_until_failure(items: Sequence[pytest.Item], told: Path) -> int:
    """Run tests in this process; 1 at the first that fails, whose name is written to `told`."""
    session = items[0].session
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            told.write_text(item.nodeid, encoding="utf-8")
            return 1
    return 0


def in_fork(work: Callable[[], int], seconds: float, output: Path) -> int:
    """Call in a process of its own; its status, or -1 where it took more processor time, or waits
    for what never comes."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            log = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            for number in (1, 2):
                os.dup2(log, number)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE, _FILE))
            status = work()
        except CannotChange:
            status = 4
        finally:
            os._exit(status)
    with os.fdopen(os.pidfd_open(pid)) as watched:
        ended, before, quiet = False, -1, 0
        while not ended and quiet < _QUIET:
            ended = bool(select.select([watched], [], [], 1)[0])
            used = _used(pid)
            quiet = quiet + 1 if used == before and used >= 0 else 0
            before = used
    with contextlib.suppress(ProcessLookupError):  # what a test started ends with it
        os.killpg(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if ended and status != -signal.SIGXCPU else -1


def _used(session: int) -> int:
    """Processor time, in ticks, of a session's processes; -2 where one could run, or is stopped.

    See proc_pid_stat(5): state is the third field, the session the sixth, times from the 14th on.
    """
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                if fields[0] in "RDTt":
                    return -2
                total += int(fields[11]) + int(fields[12])
    return total


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
        written = STATE / f"reach-{inputs_digest()}.json"
        gc.collect()
        gc.freeze()  # a fork shares what is not touched
        if not written.exists():
            told = f"{len(items)} tests: writing down what each reaches"
            print(told, file=sys.stderr, flush=True)
            in_fork(lambda: write_reach(session.items, written), 3600, self.scratch / "output")
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
        status = in_fork(work, seconds, self.scratch / "output")
        # Whatever else ends the process is noticed too: a signal, a limit.
        found = TIMEOUT if status == -1 else _STATUS.get(status, KILLED)
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

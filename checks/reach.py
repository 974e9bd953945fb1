"""Which test reaches which line: what is asked of the tests once, before a mutation run."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import coverage
import pytest

from checks.mutants import Mutant


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


def inputs_digest(root: Path) -> str:
    """Equal as long as the program and its tests are."""
    found = [path for top in ("pipeline", "tests") for path in (root / top).rglob("*.py")]
    texts = [str(path).encode() + b"\0" + path.read_bytes() for path in sorted(found)]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def write_reach(items: Sequence[pytest.Item], root: Path, names: Sequence[str], path: Path) -> int:
    """Run every test in this process, and write to `path` which lines of the files `names` each
    reaches; return 0."""
    reach = Reach(seconds={item.nodeid: 0.0 for item in items})
    watch = coverage.Coverage(
        data_file=None, source=[str(root / "pipeline")], config_file=False, messages=False
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
    for name in names:
        found = data.contexts_by_lineno(str(root / name))
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

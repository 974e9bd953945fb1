"""Compiled files that are of another source than the one beside them."""

import importlib.util
from pathlib import Path

import pytest

from pipeline.audit.findings import Finding
from pipeline.audit.run import audit
from tests.audit.images import GONE, SITE, Content, compiled, distribution, expect, image

OLD, NEW = "LIMIT = 1\n", "LIMIT = 2\n"
SOURCE, CACHED = f"{SITE}/a/b.py", f"{SITE}/a/__pycache__/b.cpython-312.pyc"


def stale(tmp_path: Path, *layers: dict[str, Content]) -> list[Finding]:
    report = audit(image(tmp_path, *layers), expect())
    return [one for one in report.findings if one.rule == "stale-bytecode"]


def test_a_source_edited_below_its_compiled_file_is_an_error(tmp_path: Path) -> None:
    base = distribution("a", "1", {"a/b.py": OLD}) | {CACHED: compiled(OLD)}
    assert stale(tmp_path, base) == []
    (finding,) = stale(tmp_path, base, {SOURCE: NEW})  # an assembler's time, an equal size
    assert (finding.severity, finding.subject, finding.path) == ("error", "a", CACHED)
    assert stale(tmp_path, base, {SOURCE: NEW, CACHED: GONE}) == []
    assert stale(tmp_path, base, {SOURCE: NEW, CACHED: compiled(NEW)}) == []


@pytest.mark.parametrize("header", [compiled(OLD, mtime=7), compiled(OLD + "#"), b"\0", b"x" * 40])
def test_what_python_sees_by_itself_is_a_note(tmp_path: Path, header: bytes) -> None:
    base = distribution("a", "1", {"a/b.py": OLD, "a/c.py": OLD})
    other = CACHED.replace("b.cpython", "c.cpython")
    (finding,) = stale(tmp_path, base | {CACHED: header, other: header})
    assert (finding.severity, finding.subject, finding.path) == ("note", "a", CACHED)
    assert finding.message.startswith("2 compiled files are of other sources")


def test_hashes_that_nobody_checks_are_checked_here(tmp_path: Path) -> None:
    base = distribution("a", "1", {"a/b.py": OLD})
    assert stale(tmp_path, base | {CACHED: compiled(OLD, hashed="unchecked")}) == []
    assert stale(tmp_path, base | {CACHED: compiled(NEW, hashed="checked")}) == []
    (finding,) = stale(tmp_path, base | {CACHED: compiled(NEW, hashed="unchecked")})
    assert (finding.severity, finding.path) == ("error", CACHED)


def test_the_hash_is_that_of_python_itself() -> None:
    magic = int.from_bytes(importlib.util.MAGIC_NUMBER, "little")
    header = compiled(OLD, hashed="checked", magic=magic)
    assert header[8:16] == importlib.util.source_hash(OLD.encode())


def test_a_compiled_file_alone_can_be_imported(tmp_path: Path) -> None:
    a = distribution("a", "1", {"a/b.py": OLD})
    (finding,) = stale(tmp_path, a | {f"{SITE}/a/gone.pyc": compiled(OLD)})
    assert (finding.severity, finding.subject) == ("warning", "gone.pyc")
    # In a cache without its source it is never looked at.
    assert stale(tmp_path, a | {CACHED.replace("b.cpython", "x.cpython"): compiled(OLD)}) == []

"""One run of `pip download`: its command, its progress, and what its answer means.

pip is a program with an exit status and messages, not a library, so what it says is read here, and
only here. It reaches the index as the user configured it (pip.conf, PIP_INDEX_URL, proxies,
certificates, credentials); this project names none.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.utils import canonicalize_name

from pipeline.transfer.children import Children

Kind = Literal["came", "differs", "gone", "outside"]

# Settings of the user that would change what is asked for, rather than where it is asked.
_NOT_OURS = frozenset(
    f"PIP_{name}"
    for name in (
        *("ABI", "BUILD_CONSTRAINT", "CONSTRAINT", "DEST", "FORMAT_CONTROL", "GROUP"),
        *("IMPLEMENTATION", "LOG", "NO_BINARY", "ONLY_BINARY", "PLATFORM", "PRE", "PROGRESS_BAR"),
        *("PYTHON_VERSION", "QUIET", "REPORT", "REQUIREMENT", "REQUIRE_VIRTUALENV", "SRC"),
        *("UPLOADED_PRIOR_TO", "VERBOSE"),
    )
)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
_STAMP = re.compile(r"^\d{4}-\d\d-\d\dT\S+ ?", re.MULTILINE)
_HASHES = re.compile(r"Expected sha256 (?P<expected>\w{64}).*?Got\s+(?P<got>\w{64})", re.S)
_LOCATIONS = re.compile(r"location\(s\) to search for versions of .*?:\n(?P<list>(?:\s*\* .*\n)*)")
_YANKED = re.compile(
    r"yanked version: '(?P<name>[^']+)' candidate.*?\n\s*Reason for being yanked: (?P<reason>.*)"
)
_UNFETCHED = re.compile(r"Could not fetch URL (?P<url>\S+?)/?: (?P<why>.*) - skipping")
_ANSWERED_NO = re.compile(r"\b(404|410) Client Error")
_FILE_GONE = re.compile(r"HTTP error (404|410) while getting|because of HTTP error (404|410)")
_NO_SPACE = os.strerror(errno.ENOSPC)
_NO_MATCH = "No matching distribution found for"


@dataclass(frozen=True)
class Wanted:
    """One wheel to ask for: project name, exact version, file name and sha256 in hex."""

    name: str
    version: str
    filename: str
    sha256: str

    @property
    def platforms(self) -> list[str]:
        """The platform tags of the file's own name, such as `manylinux_2_28_aarch64`."""
        return self.filename.removesuffix(".whl").rpartition("-")[2].split(".")


@dataclass(frozen=True)
class Answer:
    """What came of a run.

    `gone` and `differs` are only said when the index answered; all that is unclear is `outside`.
    `cause` is one line, `expected` and `got` are sha256 in hex for `differs`, `indexes` are the
    places that were asked, `yanked` maps a project's normalised name to the index's reason.
    """

    kind: Kind
    cause: str = ""
    expected: str = ""
    got: str = ""
    indexes: tuple[str, ...] = ()
    yanked: tuple[tuple[str, str], ...] = ()


def download(
    wanted: Sequence[Wanted],
    directory: Path,
    *,
    python: str,
    children: Children,
    moved: Callable[[int], None],
) -> Answer:
    """Let pip download `wanted` for a target of Python `python` ("3.11") into `directory`.

    Of everything on the index only files that carry one of the platform tags of the wanted files,
    and that have a wanted sha256 or none on the index, can be taken: pip drops those with another
    digest while one fits, and it checks the digest of what it took. `directory` must not exist;
    pip's own temporary files lie below it too, so it needs room for each file twice. `moved` is
    called with the number of bytes as they come, and a negative one for those of a failed run.
    """
    directory.mkdir()
    (directory / "wanted.txt").write_text(
        "".join(f"{w.name}=={w.version} --hash=sha256:{w.sha256}\n" for w in wanted),
        encoding="utf-8",
        newline="\n",
    )
    # Every target takes `any`; named alone it keeps the host's own platforms out.
    platforms = list(dict.fromkeys(p for w in wanted for p in w.platforms if p != "any"))
    command = [*_command(directory, python, platforms or ["any"]), "--require-hashes"]
    command += ["--requirement", str(directory / "wanted.txt")]
    return _run(command, directory, children, moved)


def download_release(
    requirement: str,
    directory: Path,
    *,
    python: str,
    platforms: Sequence[str],
    children: Children,
    moved: Callable[[int], None],
) -> Answer:
    """Let pip download the wheel of `name==version` that suits a target best, whatever its bytes.

    `platforms` are the target's platform tags, best first. Otherwise as `download`.
    """
    directory.mkdir()
    return _run([*_command(directory, python, platforms), requirement], directory, children, moved)


def _run(
    command: Sequence[str], directory: Path, children: Children, moved: Callable[[int], None]
) -> Answer:
    (directory / "files").mkdir()
    (directory / "tmp").mkdir()
    counted = 0
    said: list[str] = []
    env = _environment(directory)
    with children.run(command, env=env) as process:
        assert process.stdout is not None
        before = 0
        for line in process.stdout:
            if line.startswith("Progress "):  # "Progress 4096 of 8192", from 0 for every file
                now = int(line.split()[1])
                came = now - before if now >= before else now
                before = now
                counted += came
                moved(came)
            else:
                said.append(line)
    log = directory / "log"
    logged = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    answer = judge(process.returncode, _ESCAPES.sub("", "".join(said)), _STAMP.sub("", logged))
    came_size = sum(file.stat().st_size for file in (directory / "files").iterdir())
    moved((came_size if answer.kind == "came" else 0) - counted)  # pip is silent of small files
    return answer


def _command(directory: Path, python: str, platforms: Sequence[str]) -> list[str]:
    return [
        sys.executable, "-m", "pip", "download",
        "--no-deps", "--only-binary=:all:",
        "--ignore-requires-python",  # the lock decides what fits, not the index
        "--python-version", python,
        "--implementation", "cp",
        "--abi", "cp" + python.replace(".", ""),
        *(f"--platform={p}" for p in platforms),
        "--no-cache-dir",  # the store is the cache: 4 GB once are enough
        "--no-input", "--no-color", "--disable-pip-version-check",
        "--progress-bar", "raw",
        "--log", str(directory / "log"),
        "--dest", str(directory / "files"),
    ]  # fmt: skip


def _environment(directory: Path) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if k not in _NOT_OURS}
    return env | {"TMPDIR": str(directory / "tmp"), "LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1"}


def judge(status: int, said: str, logged: str) -> Answer:
    """What a run of pip means: `said` is its output, `logged` its debug log without time stamps."""
    indexes = tuple(dict.fromkeys(_indexes(logged)))
    yanked = tuple(
        (canonicalize_name(m["name"]), m["reason"].strip()) for m in _YANKED.finditer(said)
    )
    if status == 0:
        return Answer("came", indexes=indexes, yanked=yanked)
    if "DO NOT MATCH THE HASHES" in said and (hashes := _HASHES.search(said)):
        return Answer("differs", expected=hashes["expected"], got=hashes["got"], indexes=indexes)
    if _FILE_GONE.search(said):
        return Answer("gone", "the index lists the file, but it is not there", indexes=indexes)
    if _NO_MATCH in said:
        silent = [m for m in _UNFETCHED.finditer(logged) if not _ANSWERED_NO.search(m["why"])]
        if not silent and indexes:
            return Answer("gone", "the index has no such file any more", indexes=indexes)
        why = f"{silent[0]['url']}: {silent[0]['why']}" if silent else "pip has no index to ask"
        return Answer("outside", why, indexes=indexes)
    return Answer("outside", _cause(said, status), indexes=indexes)


def _indexes(logged: str) -> Iterator[str]:
    """The index pages that pip asked, from its debug log; pip has taken the credentials out."""
    for match in _LOCATIONS.finditer(logged):
        for line in match["list"].splitlines():
            yield line.strip().removeprefix("* ")


def _cause(said: str, status: int) -> str:
    """pip's cause in one line: its last error, or else its last line."""
    if _NO_SPACE in said:
        return _NO_SPACE
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    if errors and errors[-1] == "Exception:":  # a traceback follows; its last line is the cause
        errors.clear()
    plain = [line for line in lines if not line.startswith("[notice]")]
    return (errors or plain or [f"pip ended with status {status} and said nothing"])[-1]

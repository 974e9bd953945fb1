"""A release that goes on in a folder that somebody has edited: it mends that, or says one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from tests.line import Line
from tests.oci.registry.real import Real, needs_registry
from tests.release.standin import StandIn
from tests.release.test_release import TAG, line, registry, release, standin, summary

__all__ = ["line", "registry", "standin"]  # fixtures
pytestmark = needs_registry


def say(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def spoil_report(path: Path, key: str, value: object) -> None:
    document = json.loads(path.read_bytes())
    document["ranks"][0][key] = value
    say(path, json.dumps(document))


def instead(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def spoil_blobs(dist: Path) -> None:
    for blob in (dist / "blobs" / "sha256").iterdir():
        blob.chmod(0o644)
        data = blob.read_bytes()
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


# What is edited (state/dist: the layout), and whether the probes must run once more; the exit
# status where the release cannot go on.
EDITS: dict[str, tuple[Callable[[Path], object], bool | int]] = {
    "report cut": (lambda own: say(own / "smoke.json", '{"a'), True),
    "report empty": (lambda own: say(own / "smoke.json", ""), True),
    "report of 9 MB": (lambda own: say(own / "smoke.json", " " * 9_000_000), True),
    "report of another host": (lambda own: spoil_report(own / "smoke.json", "host", "b"), True),
    "report that failed": (lambda own: spoil_report(own / "smoke.json", "exit_status", 1), True),
    "report is a pipe": (lambda own: instead(own / "smoke.json", os.mkfifo), True),
    "report is a folder": (lambda own: instead(own / "smoke.json", Path.mkdir), 3),
    "report leads nowhere": (
        lambda own: instead(own / "smoke.json", lambda path: path.symlink_to("nowhere")),
        True,
    ),
    "record says it is tagged": (lambda own: say(own / "record.json", '{"tagged": true}'), False),
    "record is a folder": (lambda own: instead(own / "record.json", Path.mkdir), 3),
    "layout has no index": (lambda own: (own.parent / "dist" / "index.json").unlink(), False),
    "layout's index is cut": (lambda own: say(own.parent / "dist" / "index.json", "{"), 1),
    "blobs are spoilt": (lambda own: spoil_blobs(own.parent / "dist"), False),
}


def test_edited_state(line: Line, standin: StandIn, registry: Real, tmp_path: Path) -> None:
    done = release(line, standin, f"{registry.host}/edit")
    assert done.returncode == 0, done.stderr
    digest = done.stdout.splitlines()[-1].partition("@")[2]
    state = line.root / "releases"
    shutil.copytree(state, tmp_path / "kept", symlinks=True)
    wrong = []
    for number, (what, (edit, again)) in enumerate(EDITS.items()):
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "kept", state, symlinks=True)
        edit(state / TAG / digest[7:19])
        repository = f"{registry.host}/edit{number}"
        done = release(line, standin, repository)
        tags = Repository(parse_reference(repository)).tags() if done.returncode == 0 else []
        ran = {"done": True, "found": False}.get(summary(done.stderr)["smoke"])
        if isinstance(again, bool):
            is_right = done.returncode == 0 and ran is again
            is_right &= sorted(tags) == [TAG, f"{TAG}-{digest[7:19]}"]
        else:
            is_right = done.returncode == again and tags == []
            is_right &= "error: " in done.stderr and "next: " in done.stderr
        is_right &= "Traceback" not in done.stderr
        if not is_right:
            wrong.append((what, done.returncode, tags, done.stderr[-1500:]))
    assert not wrong, "\n\n".join(map(str, wrong))
    assert standin.left == []


@pytest.mark.parametrize("place", ["releases", f"releases/{TAG}"])
def test_a_folder_of_releases_that_is_a_file(
    place: str, line: Line, standin: StandIn, registry: Real
) -> None:
    path = line.root / place
    path.parent.mkdir(exist_ok=True)
    path.touch()
    done = release(line, standin, f"{registry.host}/file")
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "error: " in done.stderr and "next: " in done.stderr

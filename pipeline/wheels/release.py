"""A release that no lock names: fetched by name and version, and remembered in the cache.

Its bytes are what the user's index gives today. That is enough to look at a release, never to build
with it: only locked files go into an image. Layout, beside the wheelhouse's own:

    releases/<name>/<version>-<python>-<machine>.json    which file it was: name, sha256, size
"""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.progress import Progress
from pipeline.transfer.children import Children
from pipeline.transfer.workspace import workspace
from pipeline.wheels.house import Wheelhouse, sha256_of
from pipeline.wheels.pip import Answer, download_release
from pipeline.wheels.target import Target


@dataclass(frozen=True)
class Release:
    """The file of a release: its own name, sha256 in hex, size in bytes."""

    filename: str
    sha256: str
    size: int


def fetch_release(
    name: str, version: Version, target: Target, house: Wheelhouse, progress: Progress
) -> Release:
    """The wheel of `name` (canonical) at `version` for `target`, in the house afterwards.

    Raises Refusal when the index has no such wheel, OutsideTrouble when it cannot be asked.
    """
    python = "{}.{}".format(*target.python_version)
    note = house.cache / "releases" / name / f"{version}-{python}-{target.machine}.json"
    known = _recall(note)
    if known and house.has(known.sha256, known.size):
        return known
    with workspace(house.cache) as space, progress:
        progress.begin(f"{name} {version}", 1, 0)
        children = Children()
        try:
            answer = download_release(
                f"{name}=={version}",
                space / "release",
                python=python,
                platforms=list(target.platforms()),
                children=children,
                moved=progress.moved,
            )
        except BaseException:
            children.stop()
            raise
        came = sorted((space / "release" / "files").iterdir())
        if answer.kind != "came" or len(came) != 1:
            raise _trouble(name, version, answer)
        (file,) = came
        _check_name(file.name, name, version)
        release = Release(file.name, sha256_of(file), file.stat().st_size)
        house.add(file, release.sha256, release.size)
        progress.done()
        _remember(note, release)
        shutil.rmtree(space / "release", ignore_errors=True)
    return release


def _check_name(filename: str, name: str, version: Version) -> None:
    try:
        found = parse_wheel_filename(filename)[:2]
    except InvalidWheelFilename as error:
        raise Refusal(f"the index gave {filename}, which is no wheel's file name") from error
    if found != (name, version):
        raise Refusal(f"the index gave {filename} for {name} {version}")


def _trouble(name: str, version: Version, answer: Answer) -> Refusal | OutsideTrouble:
    details = [f"asked {place}" for place in answer.indexes]
    if answer.kind == "gone":
        return Refusal(
            f"gone: the index has no wheel of {name} {version} for this target",
            hint="see that name and version are right, or give the wheel file itself",
            details=details,
        )
    return OutsideTrouble(
        f"{name} {version} cannot be fetched: {answer.cause or 'pip brought no file'}",
        hint="see that the network and pip's index settings work (`pip config list`)",
        details=details,
    )


def _recall(note: Path) -> Release | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Release(**json.loads(note.read_text(encoding="utf-8")))
    return None


def _remember(note: Path, release: Release) -> None:
    """Notes which file it was; without the note it is only fetched once more."""
    with contextlib.suppress(OSError):
        note.parent.mkdir(parents=True, exist_ok=True)
        fresh = note.with_suffix(".tmp")
        fresh.write_text(json.dumps(asdict(release), sort_keys=True) + "\n", encoding="utf-8")
        fresh.replace(note)

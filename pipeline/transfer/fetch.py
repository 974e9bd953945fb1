"""Every locked file into the store, verified, or one error that names all that lacks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipeline.debs.fetch import DebFetcher
from pipeline.errors import OutsideTrouble
from pipeline.pins import LockedDeb, LockedWheel
from pipeline.progress import Progress, readable
from pipeline.transfer.haul import Haul
from pipeline.transfer.workspace import workspace
from pipeline.wheels.fetch import WheelFetcher
from pipeline.wheels.house import Wheelhouse, total_size

DEFAULT_JOBS = 6
_MARGIN = 64_000_000  # bytes, for records, logs and whoever else writes to the disk


@dataclass(frozen=True)
class Fetched:
    """What a fetch did: numbers of files and bytes, and warnings of one line each.

    `kept` files were in the store already, `came` were downloaded now.
    """

    kept: int
    came: int
    size: int
    came_size: int
    warnings: tuple[str, ...]


def fetch_all(
    artifacts: Iterable[LockedWheel | LockedDeb],
    house: Wheelhouse,
    *,
    python: str,
    dated: str,
    offline: bool = False,
    debian_mirror: str | None = None,
    jobs: int = DEFAULT_JOBS,
    progress: Progress | None = None,
) -> Fetched:
    """Bring all `artifacts` into `house`.

    python          version of the target's Python ("3.11.2")
    dated           when the lock's entries were made, for messages about what has gone since
    offline         use no network: everything must be there
    debian_mirror   URL of a Debian archive to use instead of apt's
    jobs            processes at a time

    Raises Refusal when bytes differ from the lock or a source says that a file is gone;
    OutsideTrouble when a source cannot be reached, the disk is too small, or files lack offline.
    Files that came before the error stay in the store.
    """
    wanted = list({a.sha256: a for a in artifacts}.values())
    missing = house.missing(wanted)
    haul = Haul()
    if missing and offline:
        raise _offline(missing, house)
    if missing:
        shown = progress or Progress()
        with workspace(house.cache) as space, shown:
            _check_space(missing, space, jobs)
            shown.begin("fetching", len(missing), total_size(missing))
            debs = DebFetcher(
                house, space, mirror=debian_mirror, dated=dated, jobs=jobs, progress=shown
            )
            debs.fetch([a for a in missing if isinstance(a, LockedDeb)], haul)
            wheels = WheelFetcher(
                house, space, python=python, dated=dated, jobs=jobs, progress=shown
            )
            untried = wheels.fetch([a for a in missing if isinstance(a, LockedWheel)], haul)
        haul.raise_faults(untried)
    return Fetched(
        kept=len(wanted) - len(missing),
        came=len(missing),
        size=sum(house.path(a.sha256).stat().st_size for a in wanted),
        came_size=haul.size,
        warnings=tuple(sorted(haul.warnings)),
    )


def _offline(missing: list[LockedWheel | LockedDeb], house: Wheelhouse) -> OutsideTrouble:
    """Exit status 3: lock and files are in order; a source is out of reach, by the user's wish."""
    return OutsideTrouble(
        f"{len(missing)} locked files are not in {house.cache}, and --offline forbids fetching",
        hint="run `fetch` once where there is a network",
        details=[
            f"{a.filename} ({readable(a.size) if a.size else 'size unknown'})"
            for a in sorted(missing, key=lambda a: a.filename)
        ],
    )


def _check_space(missing: list[LockedWheel | LockedDeb], space: Path, jobs: int) -> None:
    """pip keeps a second copy of a file for a moment, so up to `jobs` files count twice."""
    largest = sorted((a.size or 0 for a in missing), reverse=True)[:jobs]
    needed = total_size(missing) + sum(largest) + _MARGIN
    free = shutil.disk_usage(space).free
    if free < needed:
        raise OutsideTrouble(
            f"not enough room in {space.parents[1]}: {readable(needed)} are needed to fetch"
            f" {len(missing)} files, {readable(free)} are free",
            hint="make room, or set SM121_CHAIN_CACHE to a directory on a larger disk",
        )

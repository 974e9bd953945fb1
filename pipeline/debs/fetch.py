"""Bringing locked .debs into the store: from a mirror that the user names, or through apt.

apt is asked because it knows the user's archive, proxies and credentials. A pool path names one
file for as long as the archive keeps it, and the sha256 is the lock's, so no index of the archive
is read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.progress import Progress
from pipeline.transfer.children import Children, Stopped
from pipeline.transfer.haul import Haul
from pipeline.transfer.http import Vanished, stream
from pipeline.wheels.house import Locked, Wheelhouse, other_bytes, sha256_of

APT_HELPER = Path("/usr/lib/apt/apt-helper")
_FILES_A_CALL = 16
_MIRROR_HINT = "give a mirror of Debian's archive: `--debian-mirror URL` (the URL that holds pool/)"


class Deb(Locked, Protocol):
    """A locked .deb; `path` is its place below the archive (`pool/main/z/zlib/…_arm64.deb`)."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def path(self) -> str: ...


def apt_archives() -> list[str]:
    """The archives that apt is configured with and that may hold Debian's pool, best first.

    The security archive has another pool. An archive whose lists were never downloaded does not say
    what it is: it is asked last. Empty where there is no apt.
    """
    if not APT_HELPER.exists():
        return []
    command = ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"]
    try:
        told = subprocess.run(
            command,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=True,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    lines = [line.split("|", 2) for line in told.splitlines() if line.count("|") >= 2]
    known = [uri for origin, label, uri in lines if (origin, label) == ("Debian", "Debian")]
    unknown = [uri for origin, _, uri in lines if not origin]
    return list(dict.fromkeys(uri.rstrip("/") for uri in known + unknown))


class DebFetcher:
    """Fetches .debs into `house`, below the directory `space`.

    mirror    the URL of an archive that is asked instead of apt's
    dated     when the lock's entries were made, for the messages about what has gone since
    """

    def __init__(
        self,
        house: Wheelhouse,
        space: Path,
        *,
        mirror: str | None,
        dated: str,
        jobs: int,
        progress: Progress,
    ):
        self._house = house
        self._space = space
        self._mirror = mirror.rstrip("/") if mirror else None
        self._dated = dated
        self._jobs = jobs
        self._progress = progress
        self._children = Children()
        self._count = itertools.count()

    def fetch(self, debs: Sequence[Deb], haul: Haul) -> None:
        """Fetch `debs`; what came and faults go to `haul`. A file's fault does not stop others."""
        archives = [self._mirror] if self._mirror else apt_archives()
        if debs and not archives:
            haul.faults.append(
                OutsideTrouble(
                    f"{len(debs)} .debs are to be fetched, and no apt here knows Debian's archive",
                    hint=_MIRROR_HINT,
                )
            )
            return
        ordered = sorted(debs, key=lambda d: (-(d.size or 0), d.path))
        calls = max(1, -(-len(ordered) // _FILES_A_CALL))
        ask = self._from_mirror if self._mirror else self._through_apt
        with ThreadPoolExecutor(self._jobs) as pool:
            try:
                futures = [
                    pool.submit(self._batch, ordered[i::calls], archives, ask, haul)
                    for i in range(calls)
                ]
                for future in futures:
                    future.result()
            except BaseException:
                self._children.stop()
                raise

    def _batch(
        self,
        debs: Sequence[Deb],
        archives: Sequence[str],
        ask: Callable[[Sequence[Deb], str], dict[str, ChainError]],
        haul: Haul,
    ) -> None:
        """Ask one archive after the other for what the earlier ones did not have."""
        with contextlib.suppress(Stopped):
            left, faults = list(debs), dict[str, ChainError]()
            for archive in archives:
                told = ask(left, archive)
                for deb in left:
                    if deb.path not in told:
                        haul.came(deb.path, self._house.path(deb.sha256).stat().st_size)
                        self._progress.done()
                left = [d for d in left if d.path in told]
                for path, fault in told.items():
                    faults[path] = _heavier(faults.get(path, fault), fault)
                if not left:
                    return
            haul.faults.extend(dict.fromkeys(faults[d.path] for d in left))

    def _from_mirror(self, debs: Sequence[Deb], archive: str) -> dict[str, ChainError]:
        faults: dict[str, ChainError] = {}
        for place, deb in enumerate(debs):
            target = self._space / f"deb-{next(self._count)}"
            moved, check = self._progress.moved, self._children.check
            try:
                stream(f"{archive}/{deb.path}", target, moved=moved, check=check)
                self._house.add(target, deb.sha256, deb.size, name=deb.path)
            except Vanished:
                faults[deb.path] = self._vanished(deb, archive)
            except OutsideTrouble as trouble:
                rest = debs[place:]
                trouble.hint = trouble.hint or _MIRROR_HINT
                trouble.details = [f"not fetched: {d.path}" for d in rest]
                return faults | dict.fromkeys([d.path for d in rest], trouble)
            except ChainError as fault:
                faults[deb.path] = fault
        return faults

    def _through_apt(self, debs: Sequence[Deb], archive: str) -> dict[str, ChainError]:
        directory = self._space / f"apt-{next(self._count)}"
        directory.mkdir()
        command = [str(APT_HELPER), "download-file"]
        for place, deb in enumerate(debs):
            target = str(directory / str(place))
            command += [f"{archive}/{deb.path}", target, f"SHA256:{deb.sha256}"]
        env = os.environ | {"LC_ALL": "C.UTF-8"}
        with self._children.run(command, env=env) as process:
            assert process.stdout is not None
            said = process.stdout.read().splitlines()
        faults: dict[str, ChainError] = {}
        unreached: list[Deb] = []
        for place, deb in enumerate(debs):
            came, failed = directory / str(place), directory / f"{place}.FAILED"
            try:
                if came.exists():
                    self._house.add(came, deb.sha256, deb.size, name=deb.path)
                    self._progress.moved(deb.size or 0)
                elif failed.exists() and failed.stat().st_size:
                    faults[deb.path] = other_bytes(deb.path, deb.sha256, sha256_of(failed))
                elif _apt_cause(said, deb).startswith(("404", "410", "File not found")):
                    faults[deb.path] = self._vanished(deb, archive)
                else:
                    unreached.append(deb)
            except ChainError as fault:
                faults[deb.path] = fault
        if unreached:
            trouble = OutsideTrouble(
                f"apt cannot fetch from {archive}: {_apt_cause(said, unreached[0])}",
                hint=_MIRROR_HINT,
                details=[f"not fetched: {d.path}" for d in unreached],
            )
            faults |= dict.fromkeys([d.path for d in unreached], trouble)
        return faults

    def _vanished(self, deb: Deb, archive: str) -> Refusal:
        return Refusal(
            f"artifact-gone: {deb.path} has left the archive",
            hint="`sm121-chain lock --upgrade debs`",
            details=[
                f"asked {archive}/{deb.path}",
                f"locked {self._dated}: {deb.name} {deb.version} sha256 {deb.sha256}",
                "nothing else was taken in its place",
            ],
        )


def _apt_cause(said: Sequence[str], deb: Deb) -> str:
    """apt's reason for not having a file: `E: Failed to fetch URL  404  Not Found [IP: …]`."""
    for line in said:
        if line.startswith("E: Failed to fetch") and f"/{deb.path}" in line:
            return line.partition(f"/{deb.path}")[2].strip()
    return next((line[3:] for line in said if line.startswith("E: ")), "it gave no reason")


def _heavier(one: ChainError, other: ChainError) -> ChainError:
    """The fault that says more: other bytes, then absence, then an archive out of reach."""
    return min(one, other, key=lambda f: (isinstance(f, OutsideTrouble), "gone" in f.message))

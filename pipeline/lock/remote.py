"""Whether what a lock names can still be had: from the user's index, Debian, the release page.

Nothing is downloaded. Wheels are asked for through uv, .debs through apt, so the user's own
indexes, mirrors, proxies and credentials count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import requests

from pipeline.audit.findings import ERROR, WARNING, Finding
from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock.debs import offered
from pipeline.lock.entries import selections
from pipeline.lock.model import Base, Lock, LockedWheel
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.resolve import Answer, compile_pins
from pipeline.transfer.http import reason

GONE = "artifact-gone"
YANKED = "artifact-yanked"
MOVED = "base-tag-moved"
_TIMEOUT = (15, 30)  # seconds to connect, and to be answered


def ask(
    lock: Lock, *, mirror: str = "", say: Callable[[str], None]
) -> tuple[list[Finding], list[OutsideTrouble]]:
    """Ask for every locked file; findings, and the sources that gave no answer."""
    findings: set[Finding] = set()
    troubles: list[OutsideTrouble] = []

    def put(subject: str, question: Callable[[], Iterator[Finding]]) -> None:
        say(f"asking for {subject}")
        try:
            findings.update(question())
        except OutsideTrouble as trouble:
            troubles.append(trouble)

    for name, base in sorted(lock.bases.items()):
        for wheels in batches(lock, base):
            put(f"{len(wheels)} wheels of {name}", partial(_index, base, wheels))
        if base.image:
            put(f"the image of {name}", partial(judge_image, base))
        if base.debs:
            put(f"{len(base.debs)} .debs of {name}", partial(_archive, base, mirror))
    released = {w for base in lock.bases.values() for w in locked_for(lock, base) if w.url}
    if released:
        put(f"{len(released)} release files", partial(_releases, sorted(released)))
    return sorted(findings, key=Finding.sort_key), troubles


def locked_for(lock: Lock, base: Base) -> list[LockedWheel]:
    """Every wheel that some choice of groups selects on a base, sorted."""
    choices = selections(lock.groups)
    return sorted({wheel for groups in choices for wheel in lock.select(base.name, groups)})


def batches(lock: Lock, base: Base) -> list[list[LockedWheel]]:
    """Wheels of an index in lists of which each holds one version a package at most."""
    lists: list[list[LockedWheel]] = []
    count: dict[str, int] = {}
    for wheel in locked_for(lock, base):
        if wheel.url is None:
            position = count.get(wheel.name, 0)
            count[wheel.name] = position + 1
            if position == len(lists):
                lists.append([])
            lists[position].append(wheel)
    return lists


def _index(base: Base, wheels: Sequence[LockedWheel]) -> Iterator[Finding]:
    """Ask for all at once; where the index refuses, halve until the refused ones are known."""
    pins = [f"{wheel.name}=={wheel.version}" for wheel in wheels]
    options = ("--no-deps", "--refresh")
    try:
        answer = compile_pins(base.target, pins, *options, subject=f"{len(pins)} locked wheels")
    except Refusal:
        if len(wheels) == 1:
            yield _gone(wheels[0].name, wheels[0].version, wheels[0].filename)
            return
        half = len(wheels) // 2
        yield from _index(base, wheels[:half])
        yield from _index(base, wheels[half:])
        return
    yield from judge(answer, wheels)


def judge(answer: Answer, wheels: Sequence[LockedWheel]) -> Iterator[Finding]:
    """Hold what the index offers against what is locked."""
    there = {
        wheel["hashes"].get("sha256")
        for package in answer.document.get("packages", ())
        for wheel in package.get("wheels", ())
    }
    for wheel in wheels:
        if wheel.sha256 not in there:
            yield _gone(wheel.name, wheel.version, wheel.filename)
        elif wheel.name in answer.yanked:
            text = f"{wheel.name} {wheel.version} was withdrawn by its makers"
            why = answer.yanked[wheel.name]
            fix = f"lock --upgrade {wheel.name}, or hold it knowingly"
            yield Finding(YANKED, WARNING, wheel.name, f"{text}: {why}" if why else text, fix=fix)


def judge_image(base: Base) -> Iterator[Finding]:
    """Hold a base image's registry against the lock: whether it has the digest, and under the tag.

    Nothing is ever taken by the tag. One that moved says that the vendor has made another image.
    """
    reference = parse_reference(base.image)
    repository = Repository(reference)
    if repository.manifest(reference.at(digest=base.digest)) is None:
        text = f"{reference.name} no longer has {base.digest}"
        yield Finding(GONE, ERROR, base.name, text, fix="keep the cached layers, or a mirror of it")
    if reference.tag and (found := repository.digest_of(reference.tag)) != base.digest:
        text = f"{base.image} is {found or 'gone'} now; locked is {base.digest}"
        fix = "look at what changed (`drift`) before another digest is locked"
        yield Finding(MOVED, WARNING, base.name, text, fix=fix)


def _gone(name: str, version: str, filename: str) -> Finding:
    text = f"{name} {version}: the index no longer has {filename} with the locked sha256"
    return Finding(GONE, ERROR, name, text, fix=f"lock --upgrade {name}, or keep the cached file")


def _releases(wheels: Sequence[LockedWheel]) -> Iterator[Finding]:
    for wheel in wheels:
        assert wheel.url is not None
        try:
            answer = requests.head(wheel.url, allow_redirects=True, timeout=_TIMEOUT)
            if answer.status_code not in (404, 410):
                answer.raise_for_status()
        except requests.RequestException as error:
            raise OutsideTrouble(f"{wheel.url} cannot be asked for: {reason(error)}") from error
        if answer.status_code in (404, 410):
            text = f"{wheel.name} {wheel.version}: {wheel.url} is not there any more"
            yield Finding(
                GONE, ERROR, wheel.name, text, fix="keep the cached file, or change the pin"
            )


def _archive(base: Base, mirror: str) -> Iterator[Finding]:
    there = offered(base.suite, base.platform, mirror=mirror)
    for deb in base.debs:
        if (deb.path, deb.sha256) not in there:
            text = f"{deb.name} {deb.version}: Debian {base.suite} no longer lists {deb.path}"
            yield Finding(GONE, ERROR, deb.name, text, fix="lock --upgrade debs")

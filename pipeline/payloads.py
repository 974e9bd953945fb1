"""The `[[files]]` of a stage: files beside the stages, or single members of a locked wheel."""

from __future__ import annotations

import base64
import hashlib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.lock.model import Lock, LockedWheel

_MODE = re.compile(r"0[0-7]{3}")
# A container runtime puts its own there, so a file of the image would never be seen.
_RUNTIMES = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_OURS = "/usr/share/sm121-chain"
_MOST_PART, _MOST_PATH = 255, 4095  # NAME_MAX and PATH_MAX of Linux, in bytes
_WHEEL_FILE = ("wheel", "member", "sha256", "destination")


@dataclass(frozen=True)
class Payload:
    """A file that a stage adds at the absolute path `destination`, on `base` ("": on all).

    It is `data`, read from beside the stages, or else `member` of the wheel `wheel` (name and
    version), which the lock holds as an artifact. `sha256` is the content's, in hex.
    """

    destination: str
    mode: int
    sha256: str
    data: bytes | None = None
    wheel: tuple[str, str] = ("", "")
    member: str = ""
    base: str = ""


def read_payload(item: Mapping[str, Any], directory: Path) -> Payload:
    """Return a file as its table says it. Raises ValueError that says why it cannot be read."""
    place = (item["destination"], int(item.get("mode", "0644"), 8))
    base = item.get("base", "")
    if "wheel" in item:
        name, _, version = item["wheel"].partition("==")
        wheel = (name, version)
        return Payload(*place, item["sha256"], wheel=wheel, member=item["member"], base=base)
    data = _content(directory, item["source"])
    return Payload(*place, hashlib.sha256(data).hexdigest(), data, base=base)


def _content(directory: Path, name: str) -> bytes:
    path = directory / name
    if "\0" in name or ".." in path.parts or Path(name).is_absolute():
        raise ValueError(f"{name!r} must be relative and may not climb")
    try:
        if not path.resolve(strict=True).is_relative_to(directory.resolve()):
            raise ValueError(f"{name!r} is a link that leaves {directory}")
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"{name!r} is no file")
        return path.read_bytes()
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        problem = error.strerror if isinstance(error, OSError) else "a loop of links"
        raise ValueError(f"{name!r} cannot be read: {problem}") from error


def file_faults(items: Sequence[Any], bases: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the faults of `[[files]]`: number, what follows the table's path, what is wrong."""
    taken: list[tuple[str, str]] = []
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            yield number, "", "must be a table"
            continue
        for key, problem in _table_faults(item, bases):
            yield number, key, problem
        destination, base = item.get("destination"), item.get("base", "")
        if not isinstance(destination, str):
            continue
        problem = _destination_problem(destination)
        for other, where in taken:
            shared = not base or not where or base == where
            if shared and _overlap(destination, other):
                problem = problem or f"{destination} and {other} cannot both be files"
        if problem:
            yield number, ".destination", problem
        taken.append((destination, base))


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or other.startswith(f"{one}/")


def _table_faults(item: Mapping[str, Any], bases: Sequence[str]) -> Iterator[tuple[str, str]]:
    needed = _WHEEL_FILE if "wheel" in item else ("source", "destination")
    for key in sorted(item.keys() - {*needed, "mode", "base"}):
        yield f".{key}", f"unknown key; known are {', '.join(needed)}, mode, base"
    for key in needed:
        if not isinstance(item.get(key), str):
            yield f".{key}", "must be a string"
    if not re.fullmatch(r"[a-z0-9-]+==[^=\s]+", str(item.get("wheel", "a==1"))):
        yield ".wheel", "must be a normalized name and a version, as vllm==0.28.0"
    if not re.fullmatch(r"[0-9a-f]{64}", str(item.get("sha256", "0" * 64))):
        yield ".sha256", "must be 64 lower-case hex digits"
    if item.get("base", bases[0]) not in bases:
        yield ".base", f"must be one of {', '.join(bases)}"
    mode = item.get("mode", "0644")
    if not isinstance(mode, str) or not _MODE.fullmatch(mode):
        yield ".mode", 'must be a string of four octal digits, as "0644"'


def _destination_problem(path: str) -> str:
    """Return why a file of a stage cannot be at this path of the image; "" if it can."""
    parts = path.split("/")
    if parts[0] or len(parts) < 2 or {"", ".", ".."} & {*parts[1:]} or not path.isprintable():
        return f"{path!r} is no absolute path in its one spelling, without '.', '..' and '//'"
    if any(part.startswith(".wh.") for part in parts):
        return f"{path!r}: in a layer, names that start with .wh. mean that something goes"
    if len(path.encode()) > _MOST_PATH or any(len(part.encode()) > _MOST_PART for part in parts):
        return f"the path is too long: {_MOST_PART} bytes a part, {_MOST_PATH} in all"
    for place in _RUNTIMES:
        if f"{path}/".startswith(f"{place}/"):
            return f"{path!r} would not be seen: a container runtime puts its own at {place}"
    if f"{path}/".startswith(f"{_OURS}/"):
        return f"{path!r}: {_OURS} is for what the build itself records"
    return ""


def artifacts_of(payloads: Sequence[Payload], lock: Lock) -> list[LockedWheel]:
    """Return the locked wheels that files are taken from, each once, without those not locked."""
    found = {lock.artifact(*payload.wheel) for payload in payloads if payload.member}
    return sorted(wheel for wheel in found if wheel is not None)


def payload_params(payload: Payload, lock: Lock) -> dict[str, Any]:
    """Return what `steps.payloads.payload_data` reads. The wheel must be in the lock."""
    found = {
        "destination": payload.destination.lstrip("/"),
        "mode": payload.mode,
        "sha256": payload.sha256,
    }
    if payload.data is not None:
        return {**found, "base64": base64.b64encode(payload.data).decode("ascii")}
    (wheel,) = artifacts_of([payload], lock)
    source = {"wheel": wheel.sha256, "filename": wheel.filename, "member": payload.member}
    return {**found, **source}

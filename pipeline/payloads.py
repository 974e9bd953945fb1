"""The `[[files]]` of a stage: files beside the stages, or single members of a locked wheel."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.lock.model import Lock, LockedWheel

_MODE = re.compile(r"0[0-7]{3}")
_WHEEL_FILE = ("wheel", "member", "sha256", "destination")


@dataclass(frozen=True)
class Payload:
    """A file that a stage adds at the absolute path `destination`, on `base` ("": on all).

    It is `source`, a file beside the stages, or else `member` of the wheel `wheel` (name and
    version), which the lock holds as an artifact.
    """

    destination: str
    mode: int
    sha256: str
    source: Path | None = None
    wheel: tuple[str, str] = ("", "")
    member: str = ""
    base: str = ""


def read_payload(item: Mapping[str, Any], directory: Path) -> Payload | None:
    """Return a file as its table says it, None when it is not beside the stages."""
    place = (item["destination"], int(item.get("mode", "0644"), 8))
    base = item.get("base", "")
    if "wheel" in item:
        name, _, version = item["wheel"].partition("==")
        wheel = (name, version)
        return Payload(*place, item["sha256"], wheel=wheel, member=item["member"], base=base)
    source = directory / item["source"]
    if not source.is_file():
        return None
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return Payload(*place, digest, source, base=base)


def file_faults(item: Any, bases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Return the faults of one table of `[[files]]`, each with what follows the table's path."""
    if not isinstance(item, dict):
        yield "", "must be a table"
        return
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
    source, destination = item.get("source"), item.get("destination")
    if isinstance(source, str) and not _is_inside(source):
        yield ".source", "must be a relative path below the stage file, without '..'"
    if isinstance(destination, str) and (
        not destination.startswith("/") or ".." in destination.split("/")
    ):
        yield ".destination", "must be an absolute path in the image without '..'"
    if not _MODE.fullmatch(str(item.get("mode", "0644"))):
        yield ".mode", 'must be four octal digits, as "0644"'


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and ".." not in parts and "\0" not in path


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
    if payload.source is not None:
        return {**found, "text": payload.source.read_text(encoding="utf-8")}
    (wheel,) = artifacts_of([payload], lock)
    source = {"wheel": wheel.sha256, "filename": wheel.filename, "member": payload.member}
    return {**found, **source}

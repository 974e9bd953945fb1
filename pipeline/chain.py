"""The chain as data: the TOML of stages, and their graph.

A stage file is `stages/vNN-subject.toml`; docs/stages.md says what one may hold. Reading is strict,
and every fault of every file is reported at once.
"""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.errors import Fault, FaultyFile, UsageError
from pipeline.toml import parse_toml

ROOT = "base"
BASE_TAG = "sm121-base"
BASES = ("wheels", "day0")
BUILT, HELD, UPSTREAM, NOT_APPLICABLE = "built", "held", "upstream", "not-applicable"
_STATES = (BUILT, HELD, UPSTREAM, NOT_APPLICABLE)

_NAME = re.compile(r"v[1-9][0-9]{0,5}")
# distribution-spec 1.1, "Pulling manifests": the grammar of a tag.
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_MODE = re.compile(r"0[0-7]{3}")
# A container runtime puts its own there, so a file of the image would never be seen.
_RUNTIMES = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_OURS = "/usr/share/sm121-chain"
_MOST_PART, _MOST_PATH = 255, 4095  # NAME_MAX and PATH_MAX of Linux, in bytes
_VARIABLE = re.compile(r"[^\s=\0]+")
_WORDS: dict[type, str] = {str: "a string", list: "an array", dict: "a table"}
_KEYS: dict[str, type] = {
    "name": str,
    "title": str,
    "why": str,
    "parent": str,
    "tag": str,
    "environment": str,
    "patches": list,
    "files": list,
    "env": dict,
    "labels": dict,
    "checks": list,
    "status": dict,
}
_REQUIRED = ("name", "title", "why", "parent", "tag")
_CHECKS: dict[str, tuple[str, ...]] = {
    "contains": ("file", "text"),
    "absent": ("file", "text"),
    "compiles": ("file",),
    "version": ("distribution", "version"),
}


@dataclass(frozen=True)
class Payload:
    """A file that a stage adds: its bytes, and the absolute `destination` in the image."""

    data: bytes
    destination: str
    mode: int

    @property
    def sha256(self) -> str:
        """Hex sha256 of the bytes."""
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Check:
    """A static check of the finished stage; `arguments` are those that its kind asks for."""

    kind: str
    arguments: Mapping[str, str]


@dataclass(frozen=True)
class Status:
    """What becomes of a stage on one base, and why if it is not built."""

    state: str = BUILT
    reason: str = ""


@dataclass(frozen=True)
class Stage:
    """One step of the chain. `environment` is the lock group that it adds, "" for none."""

    name: str
    title: str
    why: str
    parent: str
    tag: str
    file: str
    environment: str = ""
    patches: Sequence[str] = ()
    files: Sequence[Payload] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[Check] = ()
    status: Mapping[str, Status] = field(default_factory=dict)

    def on(self, base: str) -> Status:
        """Return the stage's status on a base."""
        return self.status.get(base, Status())


@dataclass(frozen=True)
class Chain:
    """All stages, each after its parent, otherwise by number."""

    stages: Mapping[str, Stage]

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages.values())

    def path(self, name: str) -> tuple[Stage, ...]:
        """Return the stages from the first one to `name`, both included. `base` gives ()."""
        if name == ROOT:
            return ()
        if name not in self.stages:
            known = ", ".join(self.stages)
            raise UsageError(f"no stage {name!r}", hint=f"the stages are: {known}")
        path = [self.stages[name]]
        while path[-1].parent != ROOT:
            path.append(self.stages[path[-1].parent])
        return tuple(reversed(path))

    def groups(self, name: str) -> tuple[str, ...]:
        """Return the lock groups on the path of a stage, the oldest first."""
        return tuple(stage.environment for stage in self.path(name) if stage.environment)

    def built_ancestor(self, name: str, base: str) -> str:
        """Return the nearest stage above `name` that has an image on this base, or `base`."""
        for stage in reversed(self.path(name)[:-1]):
            if stage.on(base).state == BUILT:
                return stage.name
        return ROOT


def load_chain(directory: Path) -> Chain:
    """Read `directory`/*.toml. Raises FaultyFile with every fault, UsageError without stages."""
    files = sorted(directory.glob("*.toml"))
    if not files:
        raise UsageError(f"{directory}: no stages", hint="a stage is a TOML file in this directory")
    faults: list[Fault] = []
    stages: list[Stage] = []
    for file in files:
        stage = _read_stage(file, faults)
        if stage is not None:
            stages.append(stage)
    # The graph is judged by what could be read, so that one run reports all.
    faults += _graph_faults(stages, complete=len(stages) == len(files))
    if faults:
        raise FaultyFile(str(directory), faults)
    return Chain(_ordered(stages))


def _read_stage(file: Path, faults: list[Fault]) -> Stage | None:
    try:
        data = parse_toml(file)
    except FaultyFile as faulty:
        faults += [Fault(f"{file.name}: {f.where}".rstrip(": "), f.problem) for f in faulty.faults]
        return None
    except OSError as error:
        faults.append(Fault(file.name, f"cannot be read: {error.strerror}"))
        return None
    found = [Fault(f"{file.name}: {where}", problem) for where, problem in _shape_faults(data)]
    if found:
        faults += found
        return None
    payloads = []
    for number, item in enumerate(data.get("files", ())):
        try:
            content = _content(file.parent, item["source"])
        except ValueError as error:
            faults.append(Fault(f"{file.name}: files[{number}].source", str(error)))
        else:
            mode = int(item.get("mode", "0644"), 8)
            payloads.append(Payload(content, item["destination"], mode))
    return Stage(
        name=data["name"],
        title=data["title"],
        why=data["why"],
        parent=data["parent"],
        tag=data["tag"],
        file=file.name,
        environment=data.get("environment", ""),
        patches=tuple(data.get("patches", ())),
        files=tuple(payloads),
        env=data.get("env", {}),
        labels=data.get("labels", {}),
        checks=tuple(
            Check(item["kind"], {k: item[k] for k in _CHECKS[item["kind"]]})
            for item in data.get("checks", ())
        ),
        status={
            base: Status(value["state"], value.get("reason", ""))
            for base, value in data.get("status", {}).items()
        },
    )


def _content(directory: Path, name: str) -> bytes:
    """Return the bytes of a file below `directory`. Raises ValueError that says what is wrong."""
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


def _shape_faults(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in _REQUIRED:
        if key not in data:
            yield key, "is missing"
    for key, value in data.items():
        if key not in _KEYS:
            yield key, f"unknown key; known are {', '.join(_KEYS)}"
        elif not isinstance(value, _KEYS[key]):
            yield key, f"must be {_WORDS[_KEYS[key]]}"
        elif isinstance(value, str) and not value.strip():
            yield key, "is empty"
    name, tag, title = data.get("name"), data.get("tag"), data.get("title")
    if isinstance(name, str) and name.strip() and not _NAME.fullmatch(name):
        yield "name", f"{name!r} is not v and a number"
    if isinstance(tag, str) and tag.strip() and not _TAG.fullmatch(tag):
        yield "tag", f"{tag!r} is no tag: letters, digits, '_', '.', '-', at most 128"
    elif tag == BASE_TAG:
        yield "tag", f"{tag!r} is the base's"
    if isinstance(title, str) and not title.isprintable():
        yield "title", "must be one line without control characters"
    yield from _string_faults("patches", data.get("patches"))
    for key in ("env", "labels"):
        value = data.get(key)
        if isinstance(value, dict):
            for inner, text in value.items():
                if not isinstance(text, str):
                    yield f"{key}.{inner}", "must be a string"
                elif "\0" in text:
                    yield f"{key}.{inner}", "holds a NUL character"
                if key == "env" and not _VARIABLE.fullmatch(inner):
                    yield f"{key}.{inner!r}", "is no name of a variable: no '=', no white space"
                elif not inner.strip() or not inner.isprintable():
                    yield f"{key}.{inner!r}", "is no name of a label"
    yield from _file_faults(data.get("files"))
    yield from _check_faults(data.get("checks"))
    yield from _status_faults(data.get("status"))


def _string_faults(key: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            if not isinstance(item, str):
                yield f"{key}[{number}]", "must be a string"
            elif item in value[:number]:
                yield f"{key}[{number}]", f"{item!r} stands twice"


def _tables(key: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield f"{key}[{number}]", item if isinstance(item, dict) else None


def _file_faults(value: Any) -> Iterator[tuple[str, str]]:
    taken: list[str] = []
    for where, item in _tables("files", value):
        if item is None:
            yield where, "must be a table"
            continue
        for key in item.keys() - {"source", "destination", "mode"}:
            yield f"{where}.{key}", "unknown key; known are source, destination, mode"
        for key in ("source", "destination"):
            if not isinstance(item.get(key), str):
                yield f"{where}.{key}", "must be a string"
        destination = item.get("destination")
        if isinstance(destination, str):
            problem = _destination_problem(destination)
            for other in taken:
                if f"{destination}/".startswith(f"{other}/") or other.startswith(f"{destination}/"):
                    problem = problem or f"{destination} and {other} cannot both be files"
            if problem:
                yield f"{where}.destination", problem
            taken.append(destination)
        mode = item.get("mode", "0644")
        if not isinstance(mode, str) or not _MODE.fullmatch(mode):
            yield f"{where}.mode", 'must be a string of four octal digits, as "0644"'


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


def _check_faults(value: Any) -> Iterator[tuple[str, str]]:
    for where, item in _tables("checks", value):
        kind = item.get("kind") if item is not None else None
        if item is None or not isinstance(kind, str) or kind not in _CHECKS:
            yield f"{where}.kind", f"must be one of {', '.join(_CHECKS)}"
            continue
        for key in item.keys() - {"kind", *_CHECKS[kind]}:
            yield f"{where}.{key}", f"unknown key for kind {kind}"
        for key in _CHECKS[kind]:
            text = item.get(key)
            if not isinstance(text, str) or not text:
                yield f"{where}.{key}", "must be a string with something in it"
            elif key == "file" and {"", ".", ".."} & {*text.split("/")}:
                yield f"{where}.{key}", f"{text!r} must be relative and in its one spelling"
            elif key == "version" and not _is_version(text):
                yield f"{where}.{key}", f"{text!r} is no version"
            elif key == "distribution" and canonicalize_name(text) != text:
                yield f"{where}.{key}", f"{text!r} is spelled {canonicalize_name(text)!r}"


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _status_faults(value: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        return
    for base, item in value.items():
        where = f"status.{base}"
        if base not in BASES:
            yield where, f"unknown base; known are {', '.join(BASES)}"
        elif not isinstance(item, dict) or item.get("state") not in _STATES:
            yield f"{where}.state", f"must be one of {', '.join(_STATES)}"
        else:
            for key in item.keys() - {"state", "reason"}:
                yield f"{where}.{key}", "unknown key; known are state, reason"
            reason = item.get("reason", "")
            if not isinstance(reason, str):
                yield f"{where}.reason", "must be a string"
            elif item["state"] != BUILT and not reason.strip():
                yield f"{where}.reason", f"a stage that is {item['state']} says why"


def _graph_faults(stages: Sequence[Stage], *, complete: bool) -> Iterator[Fault]:
    names: dict[str, Stage] = {}
    tags: dict[str, Stage] = {}
    for stage in stages:
        first = names.setdefault(stage.name, stage)
        if first is not stage:
            yield Fault(f"{stage.file}: name", f"{stage.name!r} is also {first.file}'s")
        first = tags.setdefault(stage.tag, stage)
        if first is not stage:
            yield Fault(f"{stage.file}: tag", f"{stage.tag!r} is also {first.file}'s")
    for stage in stages:
        seen = [stage.name]
        parent = stage.parent
        while parent != ROOT:
            if parent in seen:
                if parent == stage.name:
                    cycle = " -> ".join([*seen, parent])
                    yield Fault(f"{stage.file}: parent", f"a cycle: {cycle}")
                break
            if parent not in names:
                if parent == stage.parent and complete:
                    yield Fault(f"{stage.file}: parent", f"no stage {parent!r}")
                break
            seen.append(parent)
            parent = names[parent].parent


def _ordered(stages: Sequence[Stage]) -> dict[str, Stage]:
    by_number = sorted(stages, key=lambda stage: int(stage.name[1:]))
    ordered: dict[str, Stage] = {}
    while len(ordered) < len(by_number):
        for stage in by_number:
            if stage.name not in ordered and (stage.parent == ROOT or stage.parent in ordered):
                ordered[stage.name] = stage
    return ordered

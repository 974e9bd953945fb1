"""The chain as data: the TOML of stages, and their graph.

A stage file is `stages/vNN-subject.toml`; docs/stages.md says what one may hold. Reading is strict,
and every fault of every file is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.errors import Fault, FaultyFile, UsageError
from pipeline.payloads import Payload, file_faults, read_payload
from pipeline.toml import parse_file

ROOT = "base"
BASE_TAG = "sm121-base"
BASES = ("wheels", "day0")
BUILT, HELD, UPSTREAM, NOT_APPLICABLE = "built", "held", "upstream", "not-applicable"
_STATES = (BUILT, HELD, UPSTREAM, NOT_APPLICABLE)

_NAME = re.compile(r"v[1-9][0-9]{0,5}")
# distribution-spec 1.1, "Pulling manifests": the grammar of a tag.
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
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
class Check:
    """A static check of the finished stage; `arguments` are those that its kind asks for.

    It is asked on `base`, "" for all.
    """

    kind: str
    arguments: Mapping[str, str]
    base: str = ""


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

    def checks_on(self, base: str) -> tuple[Check, ...]:
        """Return the checks that are asked on a base."""
        return tuple(check for check in self.checks if check.base in ("", base))

    def files_on(self, base: str) -> tuple[Payload, ...]:
        """Return the files that the stage adds on a base."""
        return tuple(payload for payload in self.files if payload.base in ("", base))


@dataclass(frozen=True)
class Chain:
    """All stages, each after its parent, otherwise by number."""

    stages: Mapping[str, Stage]

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages.values())

    @cached_property
    def _by_tag(self) -> Mapping[str, str]:
        return {stage.tag: stage.name for stage in self.stages.values()}

    def path(self, name: str) -> tuple[Stage, ...]:
        """Return the stages from the first one to `name`, both included. `base` gives ().

        A stage's tag names it too. Raises UsageError for a name that is neither.
        """
        if name == ROOT:
            return ()
        name = self._by_tag.get(name, name)
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
        data = parse_file(file)
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
            payloads.append(read_payload(item, file.parent))
        except ValueError as error:
            faults.append(Fault(f"{file.name}: files[{number}].source", str(error)))
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
            Check(item["kind"], {k: item[k] for k in _CHECKS[item["kind"]]}, item.get("base", ""))
            for item in data.get("checks", ())
        ),
        status={
            base: Status(value["state"], value.get("reason", ""))
            for base, value in data.get("status", {}).items()
        },
    )


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
    files = data.get("files")
    for number, key, problem in file_faults(files if isinstance(files, list) else (), BASES):
        yield f"files[{number}]{key}", problem
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


def _check_faults(value: Any) -> Iterator[tuple[str, str]]:
    for where, item in _tables("checks", value):
        kind = item.get("kind") if item is not None else None
        if item is None or not isinstance(kind, str) or kind not in _CHECKS:
            yield f"{where}.kind", f"must be one of {', '.join(_CHECKS)}"
            continue
        if item.get("base", BASES[0]) not in BASES:
            yield f"{where}.base", f"must be one of {', '.join(BASES)}"
        for key in sorted(item.keys() - {"kind", "base", *_CHECKS[kind]}):
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

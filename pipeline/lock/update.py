"""Making a lock anew from the inputs that its own `[tool.sm121-chain]` holds."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline.errors import Fault, FaultyFile, Refusal, UsageError
from pipeline.lock.compose import Entry, compose
from pipeline.lock.debs import resolve_debs
from pipeline.lock.model import Base, LockedDeb, LockedWheel, Override
from pipeline.lock.render import render
from pipeline.lock.table import Table, read_toml
from pipeline.lock.tool import Tool, read_tool
from pipeline.resolve import resolve
from pipeline.wheels.target import Target

_JOBS = 4  # resolutions side by side; they wait for the index most of the time

#: What says how far the work is.
Say = Callable[[str], None]


class Resolver(Protocol):
    """`pipeline.resolve.resolve`, or what a test puts in its place."""

    def __call__(
        self,
        target: Target,
        requirements: Sequence[str],
        overrides: Sequence[str],
        *,
        exclude_newer: str,
        newer: Mapping[str, str] | None = None,
        dependencies: bool = True,
        subject: str,
    ) -> dict[str, LockedWheel]: ...


class DebResolver(Protocol):
    """`pipeline.lock.debs.resolve_debs`, or what a test puts in its place."""

    def __call__(
        self, suite: str, platform: str, packages: Sequence[str], *, mirror: str = ""
    ) -> list[LockedDeb]: ...


def read_inputs(path: Path) -> tuple[Tool, tuple[str, ...]]:
    """The inputs of a lock and its groups; what was resolved from them is not judged.

    Raises:
        UsageError: there is no such file.
        FaultyFile: the inputs have faults.
    """
    faults: list[Fault] = []
    root = Table(read_toml(path, missing="write its [tool.sm121-chain] first"), "", faults)
    groups = root.texts("dependency-groups", required=False)
    tool = read_tool(root.table("tool").table("sm121-chain"), groups, resolved=False)
    if faults:
        raise FaultyFile(str(path), faults)
    return tool, groups


def group_parents(groups: Sequence[str], paths: Iterable[Sequence[str]]) -> dict[str, str]:
    """Which group each one builds on, "" for the base, from the paths of the stages.

    A group that no stage selects builds on the one declared before it.

    Raises:
        Refusal: a path names groups in another order than the lock, or two paths disagree.
    """
    parents: dict[str, str] = {}
    for path in sorted({tuple(path) for path in paths}):
        if list(path) != [group for group in groups if group in path]:
            message = (
                f"stages select the groups {', '.join(path)}, which the lock does not declare so"
            )
            raise Refusal(message, hint=f"dependency-groups of the lock: {', '.join(groups)}")
        for parent, group in zip(("", *path), path, strict=False):
            if parents.setdefault(group, parent) != parent:
                raise Refusal(
                    f"group {group} builds on {parents[group] or 'the base'} and on {parent}"
                )
    for before, group in zip(("", *groups), groups, strict=False):
        parents.setdefault(group, before)
    return parents


def path_of(group: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """Every group that a selection of `group` holds, from the base on."""
    path: tuple[str, ...] = ()
    while group:
        path, group = (group, *path), parents[group]
    return path


def held(overrides: Iterable[Override], base: str, path: Sequence[str]) -> dict[str, Override]:
    """The overrides in force on `base` at the end of `path`, by name: the last group's wins."""
    found: dict[str, Override] = {}
    for group in ("", *path):
        for override in overrides:
            if (override.base, override.group) == (base, group):
                found[override.name] = override
    return found


def resolve_entries(
    tool: Tool,
    groups: Sequence[str],
    parents: Mapping[str, str],
    *,
    say: Say,
    resolver: Resolver = resolve,
) -> list[Entry]:
    """Resolve every base with every group's path, and merge the answers into entries."""
    asked: dict[tuple[str, str], Future[dict[str, LockedWheel]]] = {}
    with ThreadPoolExecutor(_JOBS) as pool:
        for name, base in sorted(tool.bases.items()):
            for group in ("", *groups):
                path = path_of(group, parents)
                overrides = held(tool.overrides, name, path)
                if group and overrides == held(tool.overrides, name, path[:-1]):
                    asked[name, group] = asked[name, parents[group]]  # the same question
                    continue
                say(f"resolving {name} {' '.join(path) or '(the base)'}")
                asked[name, group] = pool.submit(_selection, tool, base, overrides, group, resolver)
    selections = {
        name: {group: asked[name, group].result() for group in ("", *groups)} for name in tool.bases
    }
    return compose(selections, groups, parents)


def _selection(
    tool: Tool, base: Base, overrides: Mapping[str, Override], group: str, resolver: Resolver
) -> dict[str, LockedWheel]:
    requirements = [str(o.requirement) for o in overrides.values() if not o.url]
    assembled = not base.image
    # what an image holds is not ours to resolve: there the ledger is all that is installed
    asked = tool.requirements if assembled else requirements
    found = {}
    if asked:
        found = resolver(
            base.target,
            asked,
            requirements if assembled else (),
            exclude_newer=tool.exclude_newer,
            newer=tool.newer,
            dependencies=assembled,
            subject=f"base {base.name}, {f'group {group}' if group else 'no group'}",
        )
    for override in overrides.values():
        if override.url:
            filename = override.url.rpartition("/")[2].replace("%2B", "+")
            wheel = LockedWheel(
                override.name, override.version, filename, None, override.sha256, override.url
            )
            found[wheel.name] = wheel
    return found


def update(
    path: Path,
    paths: Iterable[Sequence[str]],
    *,
    upgrade: Sequence[str] = (),
    moment: str = "",
    mirror: str = "",
    say: Say,
    resolver: Resolver = resolve,
    deb_resolver: DebResolver = resolve_debs,
) -> str:
    """The new text of the lock at `path`; nothing is written.

    `paths` are the groups that each stage selects. `upgrade` names packages that may be newer than
    `exclude-newer` allows, up to `moment`, and `debs` for the .deb lists; those are otherwise left
    as they are, unless a package that is asked for is not among them.

    Raises:
        UsageError, FaultyFile: the lock's inputs.
        Refusal: no solution, or a package to upgrade is held.
        OutsideTrouble: index or mirror cannot be reached.
    """
    tool, groups = read_inputs(path)
    text = path.read_text(encoding="utf-8")
    names = [canonicalize_name(name) for name in upgrade if name != "debs"]
    if names:
        refuse_unknown(names, tomllib.loads(text))
        refuse_held(tool, names)
        tool = tool.with_newer(dict.fromkeys(names, moment))
    debs = {}
    for name, base in sorted(tool.bases.items()):
        missing = set(base.packages) - {deb.name for deb in base.debs}
        if not base.image and ("debs" in upgrade or missing):
            say(f"resolving the .deb list of {name}")
            debs[name] = deb_resolver(base.suite, base.platform, base.packages, mirror=mirror)
    parents = group_parents(groups, paths)
    entries = resolve_entries(tool, groups, parents, say=say, resolver=resolver)
    return render(text, entries, debs, tool.overrides, newer=tool.newer)


def refuse_unknown(names: Sequence[str], document: Mapping[str, Any]) -> None:
    """Refuse to upgrade what the lock does not hold.

    Raises:
        UsageError: all of them.
    """
    there = {package.get("name") for package in document.get("packages", ())}
    if unknown := [name for name in names if name not in there]:
        hint = "names are those of [[packages]], or `debs` for the .deb list"
        raise UsageError(f"the lock holds no package {', '.join(unknown)}", hint=hint)


def refuse_held(tool: Tool, names: Sequence[str]) -> None:
    """Refuse to upgrade what an exact pin of the lock's own inputs holds.

    Raises:
        Refusal: all of them, each with what holds it.
    """
    details = []
    for name in names:
        details += [
            f"{o.requirement} ({o.base} {o.group or 'from the start'}): {o.why}"
            for o in tool.overrides
            if o.name == name
        ]
        details += [
            f"{r} is a requirement of the lock"
            for r in tool.requirements
            if canonicalize_name(Requirement(r).name) == name and "==" in r
        ]
    if details:
        message = f"held by the lock's own inputs: {', '.join(names)}"
        raise Refusal(message, hint="change the pin there, then run lock", details=details)

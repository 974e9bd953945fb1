"""Strict reading of the PEP 751 part of a lock: header and package entries.

`packaging.pylock` holds the format, but stops at its first fault; so each entry is given to it
alone, after the stricter rules of this project had their say: wheels only, one exact sha256 and a
size each, and no wheel that no base can take.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, cast

from packaging.markers import Environment, UndefinedComparison, UndefinedEnvironmentName
from packaging.pylock import PackageWheel, Pylock, PylockSelectError, PylockValidationError
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from pipeline.errors import Fault
from pipeline.lock.table import Table, sorted_or_fault
from pipeline.wheels.target import Target

SHA256 = r"[0-9a-f]{64}"
WHEELHOUSE = "wheelhouse/"

_HEADER = {"lock-version": "1.0", "created-by": "sm121-chain"}
_HEADER_KEYS = (
    "lock-version",
    "created-by",
    "requires-python",
    "environments",
    "extras",
    "dependency-groups",
    "default-groups",
)
_ELSEWHERE = ("sdist", "vcs", "directory", "archive")
# NVIDIA once filled the index with empty packages of these versions that only raise on install.
_PLACEHOLDERS = {(0, 0, 0), (0, 0, 1)}
# With more groups than this, only those selections are tried that a linear chain can ask for.
_MOST_GROUPS = 8


def read_entries(root: Table, targets: Mapping[str, Target]) -> Pylock | None:
    """Check the PEP 751 part of `root`; None where a fault leaves nothing to select from."""
    before = len(root.faults)
    document = dict(root.values)
    _header(root, document)
    entries = root.tables("packages", required=True)
    for entry in entries:
        _entry(entry, targets)
    keys = [(str(t.values.get("name")), _version(t.values.get("version"))) for t in entries]
    sorted_or_fault(root, "packages", keys, [f"{name} {version}" for name, version in keys])
    if len(root.faults) > before:
        return None
    pylock = Pylock.from_dict(document)
    _selections(root, pylock, targets)
    return pylock


def _version(value: object) -> Version:
    try:
        return Version(str(value))
    except InvalidVersion:
        return Version("0")


def _header(root: Table, document: Mapping[str, Any]) -> None:
    root.judged_elsewhere(*_HEADER_KEYS)
    header = {key: document[key] for key in _HEADER_KEYS if key in document}
    for problem in _judged({**header, "packages": []}):
        root.fault(*problem)
    extras = root.texts("extras")
    groups = root.texts("dependency-groups", required=False)
    if len(groups) != len(set(groups)):
        root.fault("dependency-groups", "a name stands twice")
    if list(extras) != sorted(set(extras)):
        root.fault("extras", "not sorted, or a name stands twice")


def _judged(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What `packaging` says of a document: (path, problem), at most one."""
    try:
        Pylock.from_dict(document)
    except PylockValidationError as error:
        yield error.context or "", error.message.partition("\n")[0]


def _entry(entry: Table, targets: Mapping[str, Target]) -> None:
    before = len(entry.faults)
    name = entry.text("name")
    version = entry.text("version")
    entry.text("marker", required=False)
    label = f"{name} {version}"
    entry.judged_elsewhere(*_ELSEWHERE, "requires-python")
    for kind in _ELSEWHERE:
        if kind in entry.values:
            entry.fault(kind, f"{label}: only wheels can be locked")
    release = _version(version).release
    if name.startswith("nvidia-") and (*release, 0, 0)[:3] in _PLACEHOLDERS:
        entry.fault("version", f"{label} is a placeholder that holds nothing")
    wheels = entry.tables("wheels")
    if not wheels and "wheels" not in [f.where.rpartition(".")[2] for f in entry.faults[before:]]:
        places = " or ".join(sorted({place_of(t) for t in targets.values()}))
        entry.fault("wheels", f"{label} has no wheel for {places} (source only?)")
    for wheel in wheels:
        _wheel(wheel, label, targets)
    entry.close()
    if len(entry.faults) == before:
        for context, problem in _judged({**_HEADER, "packages": [entry.values]}):
            entry.fault(context.removeprefix("packages[0]").lstrip("."), problem)


def _wheel(wheel: Table, label: str, targets: Mapping[str, Target]) -> None:
    path = wheel.text("path", required=False)
    url = wheel.text("url", required=False)
    if bool(path) == bool(url):
        wheel.fault("", f"{label}: exactly one of path and url is needed")
    if path and (not path.startswith(WHEELHOUSE) or "/" in path.removeprefix(WHEELHOUSE)):
        wheel.fault("path", f"{label}: not {WHEELHOUSE}<file name>")
    # The size of a file that no index describes is learned when it is fetched for the first time.
    wheel.integer("size", required=not url, least=1)
    hashes = wheel.table("hashes")
    if "hashes" in wheel.values:
        hashes.text("sha256", pattern=SHA256, like="64 lower-case hex digits")
        hashes.close()
    wheel.close()
    filename = (path or url).rpartition("/")[2]
    try:
        tags = parse_wheel_filename(filename.replace("%2B", "+"))[3]
    except InvalidWheelFilename:
        wheel.fault("path" if path else "url", f"{label}: {filename!r} is no wheel file name")
        return
    if all(tags.isdisjoint(_accepted(target)) for target in targets.values()):
        places = " or ".join(sorted({place_of(t) for t in targets.values()}))
        wheel.fault("", f"{label}: {filename} does not fit {places}")


def selections(groups: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every choice of groups that is tried: all subsets, or the prefixes where those are many."""
    if len(groups) > _MOST_GROUPS:
        yield from (tuple(groups[:count]) for count in range(len(groups) + 1))
    else:
        for count in range(len(groups) + 1):
            yield from itertools.combinations(groups, count)


def _selections(root: Table, pylock: Pylock, targets: Mapping[str, Target]) -> None:
    """Select with every base and choice of groups; each entry's fault is reported once."""
    faults: dict[tuple[int, str], Fault] = {}
    for base, target in targets.items():
        environment = target.environment()
        fit: dict[int, bool] = {}
        if problem := _unfit_header(pylock, base, environment):
            root.fault(*problem)
            continue
        for groups in selections(pylock.dependency_groups or ()):
            chosen: dict[str, str | frozenset[str]] = {**environment}
            chosen |= {"extras": frozenset([base]), "dependency_groups": frozenset(groups)}
            taken: dict[str, int] = {}
            for position, package in enumerate(pylock.packages):
                try:
                    if package.marker and not package.marker.evaluate(chosen, context="lock_file"):
                        continue
                except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion) as error:
                    fault = Fault(f"packages[{position}].marker", f"{package.marker}: {error}")
                    faults.setdefault((position, "marker"), fault)
                    continue
                if (other := taken.setdefault(package.name, position)) != position:
                    fault = _double(pylock, position, other, base, groups)
                    faults.setdefault((position, f"double {other}"), fault)
                if position not in fit:
                    fit[position] = _fits(package.wheels or (), target)
                if not fit[position]:
                    text = f"{package.name} {package.version}: no wheel for {place_of(target)}"
                    fault = Fault(f"packages[{position}].wheels", f"{text} (base {base})")
                    faults.setdefault((position, f"unfit {base}"), fault)
    root.faults.extend(faults[key] for key in sorted(faults))


def _unfit_header(
    pylock: Pylock, base: str, environment: Mapping[str, str]
) -> tuple[str, str] | None:
    """What of the header (requires-python, environments, extras) keeps a base from its packages."""
    if base not in (pylock.extras or ()):
        return "extras", f"the base '{base}' is missing"
    header = Pylock.from_dict({**pylock.to_dict(), "packages": []})
    try:
        list(header.select(environment=cast("Environment", environment), tags=(), extras=[base]))
    except PylockSelectError as error:
        return "", f"base {base}: {error}"
    return None


def _double(pylock: Pylock, position: int, other: int, base: str, groups: Sequence[str]) -> Fault:
    package, first = pylock.packages[position], pylock.packages[other]
    chosen = f"base {base}, groups {', '.join(groups) or 'none'}"
    text = f"selected together with packages[{other}] ({first.version}) by {chosen}"
    return Fault(f"packages[{position}]", f"{package.name} {package.version}: {text}")


def _fits(wheels: Sequence[PackageWheel], target: Target) -> bool:
    accepted = _accepted(target)
    return any(not parse_wheel_filename(w.filename)[3].isdisjoint(accepted) for w in wheels)


@cache
def _accepted(target: Target) -> frozenset[Tag]:
    return frozenset(target.tags())


def place_of(target: Target) -> str:
    """A target in the words of a message."""
    glibc = "{}.{}".format(*target.glibc)
    return f"linux/{target.architecture}, Python {target.python}, glibc {glibc}"

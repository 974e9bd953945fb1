"""Paths that two distributions would write: found before anything is written.

Contents are compared by the hashes of the plans (RECORD's). The answer does not depend on the order
of the wheels: equal bytes are shared, other bytes need an owner in the lock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from packaging.utils import canonicalize_name

from pipeline.errors import Refusal
from pipeline.oci.index import DIRECTORY
from pipeline.oci.tree import Tree
from pipeline.wheels.destination import Plan
from pipeline.wheels.known import FILE_CONFLICT, Known, image_path
from pipeline.wheels.target import Target


class Owned(NamedTuple):
    """A file of the parent image: the distribution that owns it, hex sha256 of its content."""

    owner: str
    sha256: str


class _Claim(NamedTuple):
    name: str
    sha256: str


def resolve_conflicts(
    plans: Sequence[Plan],
    target: Target,
    *,
    owned: Mapping[str, Owned] | None = None,
    known: Iterable[Known] = (),
) -> dict[str, dict[str, str]]:
    """Return what each distribution has to leave out: name -> image path -> reason.

    `owned` maps image paths of the parent to their owners; leave out what this stage removes. A
    path of several distributions is fine when its bytes are equal, or when a `known` file-conflict
    names the owner: then the owner's bytes are installed and the others leave the path out.
    Raises one Refusal that lists every other path, and for two wheels of one distribution.
    """
    _refuse_duplicates(plans)
    claims: dict[str, list[_Claim]] = defaultdict(list)
    for plan in plans:
        for path, file in plan.files.items():
            claims[path].append(_Claim(plan.name, file.sha256))
    planned = {plan.name for plan in plans}
    parent = {
        path: _Claim(canonicalize_name(file.owner), file.sha256)
        for path, file in (owned or {}).items()
        if canonicalize_name(file.owner) not in planned
    }
    for path in claims.keys() & parent.keys():
        claims[path].append(parent[path])
    owners = _owners(known, target)
    leave_out: dict[str, dict[str, str]] = defaultdict(dict)
    problems = _file_and_directory(claims, parent)
    for path, claimants in claims.items():
        hashes = {claim.sha256 for claim in claimants}
        if len(hashes) == 1:
            continue
        entry = owners.get(path)
        by_name = {claim.name: claim.sha256 for claim in claimants}
        if entry is None or canonicalize_name(entry.owner) not in by_name:
            problems[path] = set(by_name)
            continue
        owner = canonicalize_name(entry.owner)
        losers = {name for name, sha256 in by_name.items() if sha256 != by_name[owner]}
        # What stands in the parent cannot leave its path out any more: the new file goes over it.
        for name in losers & planned:
            leave_out[name][path] = f"{owner} owns it; known: {entry.why}"
    if problems:
        raise _refusal(problems)
    return dict(leave_out)


def _owners(known: Iterable[Known], target: Target) -> dict[str, Known]:
    return {
        image_path(entry.path, target.site_packages): entry
        for entry in known
        if entry.rule == FILE_CONFLICT
    }


def _refuse_duplicates(plans: Sequence[Plan]) -> None:
    seen: dict[str, str] = {}
    for plan in sorted(plans, key=lambda plan: (plan.name, plan.filename)):
        if plan.name in seen:
            raise Refusal(f"{plan.name} is there twice: {seen[plan.name]} and {plan.filename}")
        seen[plan.name] = plan.filename


def _file_and_directory(
    claims: Mapping[str, Sequence[_Claim]], parent: Mapping[str, _Claim]
) -> dict[str, set[str]]:
    """Return the paths that are a file of one distribution and a directory of another."""
    below: dict[str, set[str]] = defaultdict(set)
    for path, claimants in [*claims.items(), *((p, [c]) for p, c in parent.items())]:
        names = {claim.name for claim in claimants}
        cut = path.rfind("/")
        while cut > 0:
            directory = path[:cut]
            if names <= below[directory]:
                break
            below[directory] |= names
            cut = path.rfind("/", 0, cut)
    problems: dict[str, set[str]] = {}
    for path in below.keys() & (claims.keys() | parent.keys()):
        files = {claim.name for claim in claims.get(path, ())}
        if path in parent:
            files.add(parent[path].name)
        problems[path] = files | below[path]
    return problems


def _refusal(problems: Mapping[str, set[str]]) -> Refusal:
    lines = [f"/{path}: {', '.join(sorted(names))}" for path, names in sorted(problems.items())]
    count = f"{len(lines)} path{'s' if len(lines) > 1 else ''}"
    return Refusal(
        f"file-conflict: {count} of several distributions, with other bytes",
        hint="add a known entry with rule file-conflict, the path and its owner",
        details=lines,
    )


def in_the_way(tree: Tree, paths: Collection[str]) -> set[str]:
    """Return the paths of a parent image that new files at `paths` can collide with."""
    found = set(paths)
    for path in paths:
        there = tree.get(path)
        if there is None or there.entry.type == DIRECTORY:
            found.update(node.entry.path for node in tree.under(path))
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found

"""From the selections of every base and group to one sorted list of lock entries with markers.

A group's selection is that of the path which ends in it. For one package of one base, a *turn* is
a group whose selection holds another version than its parent's. The markers make the last turn win,
in the order in which the lock declares its groups; so every choice of groups selects at most one
entry a package, and a new group at the end changes no entry of a package that it does not move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from pipeline.lock.model import LockedWheel

#: For each base: the selection of the base itself ("") and that of every group's path, by name.
Selections = Mapping[str, Mapping[str, Mapping[str, LockedWheel]]]


@dataclass(frozen=True)
class Entry:
    """One `[[packages]]` table; `marker` "" selects it always."""

    name: str
    version: str
    marker: str
    wheels: tuple[LockedWheel, ...]


def compose(
    selections: Selections, groups: Sequence[str], parents: Mapping[str, str]
) -> list[Entry]:
    """Merge selections into entries, sorted by name and version.

    `groups` is in declared order; `parents` names the group that each one builds on, "" for the
    base.
    """
    wheels: dict[tuple[str, str], set[LockedWheel]] = {}
    conditions: dict[tuple[str, str], dict[str, str]] = {}
    for base, chosen in selections.items():
        for name in sorted({name for selection in chosen.values() for name in selection}):
            turns = _turns(name, chosen, groups, parents)
            for version in {version for _, version in turns if version}:
                entry = (name, version)
                conditions.setdefault(entry, {})[base] = _condition(version, turns)
        for selection in chosen.values():
            for wheel in selection.values():
                wheels.setdefault((wheel.name, wheel.version), set()).add(wheel)
    bases = sorted(selections)
    return [
        Entry(*key, _marker(conditions[key], bases), tuple(sorted(wheels[key])))
        for key in sorted(conditions, key=lambda key: (key[0], Version(key[1])))
    ]


def _turns(
    name: str,
    chosen: Mapping[str, Mapping[str, LockedWheel]],
    groups: Sequence[str],
    parents: Mapping[str, str],
) -> list[tuple[str, str]]:
    """(group, version from there on) in declared order, first the base's; "" where it is absent."""

    def version(group: str) -> str:
        wheel = chosen[group].get(name)
        return wheel.version if wheel else ""

    moved = [group for group in groups if version(group) != version(parents[group])]
    return [("", version("")), *((group, version(group)) for group in moved)]


def _condition(version: str, turns: Sequence[tuple[str, str]]) -> str:
    """When the last turn that is in force gives `version`: "" for always."""
    ways = []
    for position, (group, there) in enumerate(turns):
        if there != version:
            continue
        terms = [f"'{group}' in dependency_groups"] if group else []
        later = [other for other, elsewhere in turns[position + 1 :] if elsewhere != version]
        terms += [f"'{other}' not in dependency_groups" for other in later]
        if not terms:
            return ""
        ways.append(" and ".join(terms))
    if len(ways) == 1:
        return ways[0]
    return " or ".join(f"({way})" if " and " in way else way for way in ways)


def _marker(conditions: Mapping[str, str], bases: Sequence[str]) -> str:
    """One marker for the conditions of several bases, of which exactly one is ever selected."""
    always = [base for base in bases if conditions.get(base) == ""]
    if len(always) == len(bases):
        return ""
    ways = []
    for base in sorted(set(conditions) - set(always)):
        condition = conditions[base]
        # where every other base takes the entry anyway, naming this one adds nothing
        if len(always) != len(bases) - 1:
            inner = f"({condition})" if " or " in condition else condition
            condition = f"{inner} and '{base}' in extras"
        ways.append(condition)
    ways += [f"'{base}' in extras" for base in always]
    if len(ways) == 1:
        return ways[0]
    return " or ".join(f"({way})" if " and " in way else way for way in ways)

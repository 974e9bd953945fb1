"""Markers: whatever groups are chosen, the last turn of a package wins, and one entry is in."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker

from pipeline.lock.compose import Entry, compose
from pipeline.lock.model import LockedWheel

GROUPS = ("a", "b", "c", "d")
BASES = ("day0", "wheels")


def wheel(version: str, name: str = "comms") -> LockedWheel:
    return LockedWheel(name, version, f"{name}-{version}-py3-none-any.whl", 1, version * 64)


def selected(entries: list[Entry], base: str, groups: tuple[str, ...]) -> list[str]:
    environment = {"extras": frozenset([base]), "dependency_groups": frozenset(groups)}
    return [
        entry.version
        for entry in entries
        if not entry.marker or Marker(entry.marker).evaluate(environment, context="lock_file")
    ]


def markers(chosen: dict[str, dict[str, str]], parents: dict[str, str]) -> dict[str, str]:
    selections = {
        base: {group: {"comms": wheel(v)} if v else {} for group, v in versions.items()}
        for base, versions in chosen.items()
    }
    groups = [group for group in next(iter(chosen.values())) if group]
    return {entry.version: entry.marker for entry in compose(selections, groups, parents)}


def test_what_never_moves_has_no_group_in_its_marker() -> None:
    parents = {"a": "", "b": "a"}
    assert markers({"wheels": {"": "1", "a": "1", "b": "1"}}, parents) == {"1": ""}
    two = {"day0": {"": "", "a": "", "b": ""}, "wheels": {"": "1", "a": "1", "b": "1"}}
    assert markers(two, parents) == {"1": "'wheels' in extras"}


def test_a_pin_that_one_base_has_from_the_start_and_the_other_from_a_group() -> None:
    chosen = {"day0": {"": "2", "a": "2"}, "wheels": {"": "1", "a": "2"}}
    assert markers(chosen, {"a": ""}) == {
        "1": "'a' not in dependency_groups and 'wheels' in extras",
        "2": "'a' in dependency_groups or 'day0' in extras",
    }


def test_a_new_group_leaves_the_entries_of_others_alone() -> None:
    before = {"wheels": {"": "1", "a": "1"}}
    after = {"wheels": {"": "1", "a": "1", "b": "1"}}
    assert markers(before, {"a": ""}) == markers(after, {"a": "", "b": "a"})


def test_wheels_of_two_bases_share_an_entry() -> None:
    native = LockedWheel("x", "1", "x-1-cp311-cp311-linux_aarch64.whl", 1, "a" * 64)
    vendor = LockedWheel("x", "1", "x-1-cp312-cp312-linux_aarch64.whl", 1, "b" * 64)
    (entry,) = compose({"day0": {"": {"x": vendor}}, "wheels": {"": {"x": native}}}, (), {})
    assert entry.wheels == (native, vendor)
    assert entry.marker == ""


versions = st.sampled_from(["", "1", "2", "3"])
trees = st.tuples(*(st.sampled_from(("", *GROUPS[:i])) for i in range(len(GROUPS))))
choices = st.fixed_dictionaries(dict.fromkeys(("", *GROUPS), versions))


@given(trees, st.fixed_dictionaries(dict.fromkeys(BASES, choices)))
def test_every_path_gives_its_own_version_and_every_choice_one_at_most(
    tree: tuple[str, ...], chosen: dict[str, dict[str, str]]
) -> None:
    parents = dict(zip(GROUPS, tree, strict=True))
    selections = {
        base: {group: {"comms": wheel(v)} if v else {} for group, v in held.items()}
        for base, held in chosen.items()
    }
    entries = compose(selections, GROUPS, parents)
    for base in BASES:
        for group in ("", *GROUPS):
            path: tuple[str, ...] = ()
            step = group
            while step:
                path, step = (step, *path), parents[step]
            expected = chosen[base][group]
            assert selected(entries, base, path) == ([expected] if expected else [])
        for count in range(len(GROUPS) + 1):
            for groups in itertools.combinations(GROUPS, count):
                assert len(selected(entries, base, groups)) <= 1

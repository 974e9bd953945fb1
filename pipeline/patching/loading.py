"""Reads `patches/*.toml`, strictly: every fault of a file is reported at once, with its path.

Besides types and unknown keys it refuses edits that could not be told from drift later: see
`_check_texts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidName, canonicalize_name

from pipeline.errors import Fault, FaultyFile
from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant
from pipeline.toml import parse_file

_PATCH_KEYS = {"name", "title", "why", "upstream", "distribution", "variants"}
_VARIANT_KEYS = {"for", "upstream", "edits", "edits-of", "unverified", "not-needed"}
_TEST_KEYS = {"file", "within", "contains"}
_EDIT_KEYS = {"id", "file", "within", "find", "replace", "replace-file", "count"}


def load_patches(directory: Path) -> dict[str, Patch]:
    """Reads every `*.toml` of a directory, by name and sorted.

    Raises FaultyFile with the faults of all files (each prefixed by its file name), also when the
    directory is not there.
    """
    if not directory.is_dir():
        raise FaultyFile(str(directory), [Fault("", "no such directory")])
    patches: dict[str, Patch] = {}
    faults: list[Fault] = []
    for path in sorted(directory.glob("*.toml")):
        try:
            patch = load_patch(path)
        except FaultyFile as faulty:
            faults += [Fault(_join(path.name, f.where, ": "), f.problem) for f in faulty.faults]
        else:
            patches[patch.name] = patch
    if faults:
        raise FaultyFile(str(directory), faults)
    return patches


def load_patch(path: Path) -> Patch:
    """Reads one patch. Raises FaultyFile with every fault, each with its path in the file."""
    try:
        data = parse_file(path)
    except OSError as error:
        raise FaultyFile(str(path), [Fault("", error.strerror or "cannot be read")]) from error
    reader = _Reader(path)
    patch = reader.patch(data)
    if reader.faults:
        raise FaultyFile(str(path), reader.faults)
    return patch


def _join(where: str, key: str, dot: str = ".") -> str:
    return f"{where}{dot}{key}" if where and key else where or key


class _Reader:
    """Collects faults and goes on with stand-in values, so that one run names all of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.payloads: set[str] = set()

    def fault(self, where: str, problem: str) -> None:
        self.faults.append(Fault(where, problem))

    def patch(self, data: dict[str, Any]) -> Patch:
        self.known_keys(data, "", _PATCH_KEYS)
        name = self.text(data, "", "name")
        if name and name != self.path.stem:
            self.fault("name", f"is {name!r}, but the file is called {self.path.name}")
        title = self.text(data, "", "title")
        if "\n" in title:
            self.fault("title", "must be one line")
        upstream = self.text(data, "", "upstream", empty=True)
        if upstream and urlsplit(upstream).scheme not in ("http", "https"):
            self.fault("upstream", f"{upstream!r} is no link; leave it empty when there is none")
        distribution = self.text(data, "", "distribution")
        if distribution:
            try:
                distribution = canonicalize_name(distribution, validate=True)
            except InvalidName:
                self.fault("distribution", f"{distribution!r} is no distribution name")
        why = self.text(data, "", "why")
        tables = list(self.tables(data, "", "variants"))
        variants = self.shared([self.variant(table, where) for table, where in tables], tables)
        seen: dict[str, str] = {}
        for index, variant in enumerate(variants):
            where = f"variants[{index}].for"
            if variant.label in seen:
                self.fault(where, f"{variant.label!r} stands in {seen[variant.label]} too")
            seen.setdefault(variant.label, where)
        payloads = tuple(sorted(self.payloads))
        return Patch(name, title, why, upstream, distribution, variants, payloads)

    def variant(self, data: dict[str, Any], where: str) -> Variant:
        self.known_keys(data, where, _VARIANT_KEYS)
        requirement = self.requirement(data, where)
        tests = tuple(
            self.test(table, path)
            for table, path in self.tables(data, where, "upstream", required=False)
        )
        other = bool({"upstream", "edits-of", "not-needed"} & data.keys())
        edits = tuple(
            self.edit(table, path)
            for table, path in self.tables(data, where, "edits", required=not other)
        )
        unverified = self.text(data, where, "unverified") if "unverified" in data else ""
        not_needed = self.text(data, where, "not-needed") if "not-needed" in data else ""
        if not_needed and {"upstream", "edits", "edits-of"} & data.keys():
            self.fault(_join(where, "not-needed"), "stands beside edits: give one of the two")
        seen: dict[str, str] = {}
        for index, edit in enumerate(edits):
            path = f"{where}.edits[{index}].id"
            if edit.id and edit.id in seen:
                self.fault(path, f"{edit.id!r} is the id of {seen[edit.id]} too")
            seen.setdefault(edit.id, path)
        return Variant(requirement, edits, tests, unverified, not_needed)

    def shared(
        self, variants: list[Variant], tables: list[tuple[dict[str, Any], str]]
    ) -> tuple[Variant, ...]:
        """The variants, each `edits-of` with the named variant's edits and its own in their places.

        An edit of its own takes the place of the one with its id; others come last.
        """
        found = []
        for variant, (table, where) in zip(variants, tables, strict=True):
            if "edits-of" not in table:
                found.append(variant)
                continue
            label = self.text(table, where, "edits-of")
            named = [v for v, (t, _) in zip(variants, tables, strict=True) if t.get("for") == label]
            if len(named) != 1 or named[0] is variant or not named[0].edits:
                self.fault(
                    _join(where, "edits-of"), f"no other variant with edits is for {label!r}"
                )
                continue
            own = {edit.id: edit for edit in variant.edits}
            edits = [own.pop(edit.id, edit) for edit in named[0].edits]
            found.append(replace(variant, edits=(*edits, *own.values())))
        return tuple(found)

    def requirement(self, data: dict[str, Any], where: str) -> Requirement:
        text = self.text(data, where, "for")
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            if text:
                problem = str(error).splitlines()[0]
                self.fault(_join(where, "for"), f"{text!r} is no requirement (PEP 508): {problem}")
            return Requirement("faulty")
        if requirement.extras or requirement.url or requirement.marker:
            self.fault(_join(where, "for"), "takes a name and versions only: no extra, URL, marker")
        elif not requirement.specifier:
            self.fault(_join(where, "for"), f"{text!r} names no version, as in {text}==1.2.*")
        return requirement

    def test(self, data: dict[str, Any], where: str) -> UpstreamTest:
        self.known_keys(data, where, _TEST_KEYS)
        file, within = self.file(data, where), self.scope(data, where)
        return UpstreamTest(file, self.text(data, where, "contains"), within)

    def edit(self, data: dict[str, Any], where: str) -> Edit:
        self.known_keys(data, where, _EDIT_KEYS)
        identity = self.text(data, where, "id")
        file, within = self.file(data, where), self.scope(data, where)
        find = self.text(data, where, "find")
        if "replace" in data and "replace-file" in data:
            self.fault(_join(where, "replace-file"), "stands beside replace: give one of the two")
            replace = ""
        elif "replace-file" in data:
            payload = self.payload(data, where)
            replace = payload or ""
            if payload is not None:
                self._check_texts(find, payload, _join(where, "replace-file"))
        else:
            replace = self.text(data, where, "replace", empty=True)
            if isinstance(data.get("replace"), str):
                self._check_texts(find, replace, _join(where, "replace"))
        return Edit(identity, file, find, replace, within, self.count(data, where))

    def _check_texts(self, find: str, replace: str, where: str) -> None:
        """A replacement that stands inside its own anchor proves nothing by being there.

        Once upstream rewrites the anchor, what is left may still hold the replacement, and a
        drifted file would be called already-applied. Deletions are made provable by taking in the
        text on both sides of what goes.
        """
        if not find:
            return
        if find == replace:
            self.fault(where, "equals find: nothing would change")
        elif replace in find:
            self.fault(
                where,
                "stands inside find, so an applied edit could not be told from a drifted file:"
                " let find and replace also hold the text on both sides of what is deleted",
            )

    def count(self, data: dict[str, Any], where: str) -> int:
        value = data.get("count", 1)
        if not isinstance(value, int) or isinstance(value, bool):
            self.fault(_join(where, "count"), f"must be an integer, not {_kind(value)}")
        elif value < 1:
            self.fault(_join(where, "count"), f"must be 1 or more, not {value}")
        else:
            return value
        return 1

    def payload(self, data: dict[str, Any], where: str) -> str | None:
        name = self.text(data, where, "replace-file")
        where = _join(where, "replace-file")
        if not name or not self.inside(name, where):
            return None
        source = self.path.parent / name
        if not source.resolve().is_relative_to(self.path.parent.resolve()):
            self.fault(where, f"{name!r} is a link that leaves {self.path.parent}")
            return None
        try:
            text = source.read_bytes().decode("utf-8")
        except OSError as error:
            self.fault(where, f"{name!r} cannot be read: {error.strerror}")
            return None
        except UnicodeDecodeError as error:
            self.fault(where, f"{name!r} is not UTF-8 at byte {error.start}")
            return None
        self.payloads.add(name)
        return text

    def file(self, data: dict[str, Any], where: str) -> str:
        file = self.text(data, where, "file")
        if file:
            self.inside(file, _join(where, "file"))
        return file

    def inside(self, path: str, where: str) -> bool:
        """Whether a path is relative, in its one spelling, and stays below where it starts."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            self.fault(where, f"{path!r} must be relative and may not climb")
        elif str(pure) != path or path == "." or "\\" in path or not path.isprintable():
            self.fault(where, f"{path!r} is not a plain path with single slashes")
        else:
            return True
        return False

    def scope(self, data: dict[str, Any], where: str) -> str | None:
        if "within" not in data:
            return None
        scope = self.text(data, where, "within")
        if scope and not all(part.strip() for part in scope.replace("::", ".").split(".")):
            self.fault(_join(where, "within"), f"{scope!r} is no dotted name")
        return scope

    def text(self, data: dict[str, Any], where: str, key: str, *, empty: bool = False) -> str:
        value = data.get(key)
        if key not in data:
            self.fault(_join(where, key), "is missing")
        elif not isinstance(value, str):
            self.fault(_join(where, key), f"must be a string, not {_kind(value)}")
        elif not empty and not value:
            self.fault(_join(where, key), "is empty")
        else:
            return value
        return ""

    def tables(
        self, data: dict[str, Any], where: str, key: str, *, required: bool = True
    ) -> Iterable[tuple[dict[str, Any], str]]:
        path = _join(where, key)
        value = data.get(key, [])
        if key not in data and not required:
            return
        if key not in data:
            self.fault(path, "is missing")
        elif not isinstance(value, list):
            self.fault(path, f"must be an array of tables, not {_kind(value)}")
        elif not value:
            self.fault(path, "is empty")
        else:
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield item, f"{path}[{index}]"
                else:
                    self.fault(f"{path}[{index}]", f"must be a table, not {_kind(item)}")

    def known_keys(self, data: dict[str, Any], where: str, known: set[str]) -> None:
        for key in sorted(set(data) - known):
            self.fault(_join(where, key), f"unknown key; known are {', '.join(sorted(known))}")


def _kind(value: object) -> str:
    """The TOML word for a value's type."""
    names = {bool: "a boolean", int: "an integer", float: "a float", str: "a string"}
    names |= {list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")

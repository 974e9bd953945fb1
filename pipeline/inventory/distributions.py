"""The inventory: every distribution that an image holds, read from its dist-info directories.

A distribution is what stands directly in a site-packages directory of the merged tree. Build
rubbish in source trees and copies vendored inside packages are none; a link is no second copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pipeline.inventory.infos import Info, find_infos, find_sites
from pipeline.inventory.metadata import (
    Metadata,
    Origin,
    Record,
    Unreadable,
    parse_direct_url,
    parse_metadata,
    parse_record,
    rows_by_line,
)
from pipeline.oci.tree import Located
from pipeline.oci.view import ImageView

_MAX_FILE = 64 * 1024 * 1024  # bytes; the largest RECORD of the chain has 2 MB


@dataclass(frozen=True)
class Distribution:
    """One installed distribution.

    `name` is normalised (PEP 503), `spelled` and `version` stand as in METADATA. `path` is the
    dist-info, `site` the directory that holds it, both from the image root. `layer` is the number
    of the layer that brought METADATA. `record` is None when there is no readable RECORD, and
    `record_fault` says why if there is an unreadable one.
    """

    name: str
    spelled: str
    version: str
    path: str
    site: str
    layer: int
    requires: tuple[str, ...] = ()
    record: Record | None = None
    record_fault: str = ""
    installer: str = ""
    origin: Origin | None = None
    requested: bool = False


@dataclass(frozen=True, order=True)
class BrokenMetadata:
    """A dist-info that does not identify a distribution: it never counts as an installed one.

    `name` is what its directory's name suggests, normalised.
    """

    path: str
    name: str
    problem: str
    layer: int


@dataclass(frozen=True)
class Inventory:
    """All distributions, by name and path, of the site-packages directories `sites`."""

    sites: tuple[str, ...]
    distributions: tuple[Distribution, ...]
    broken: tuple[BrokenMetadata, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Distribution, ...]]:
        """Distributions by normalised name; more than one means a duplicate."""
        groups: dict[str, tuple[Distribution, ...]] = {}
        for distribution in self.distributions:
            groups[distribution.name] = (*groups.get(distribution.name, ()), distribution)
        return groups

    def the_one(self, name: str) -> Distribution | None:
        """Return the only distribution of that name; None when there is none, or several."""
        found = self.by_name.get(name, ())
        return found[0] if len(found) == 1 else None


Parsed = Metadata | Origin | Record | str | Unreadable


@dataclass
class Memo:
    """Parsed metadata files by parser and sha256 of their content, and what was made of them, so
    that the audits of a chain, whose images are nearly equal, read and parse each file once."""

    parsed: dict[tuple[str, str], Parsed] = field(default_factory=dict)
    distributions: dict[_Key, Distribution] = field(default_factory=dict)
    records: dict[str, tuple[bytes, Record]] = field(default_factory=dict)  # the last ones, by path
    layers: set[str] = field(default_factory=set)  # digests of those whose files are all in it


# Everything that a distribution is made of: its `Info`, with the hashes of its files.
_Key = tuple[str, str, bool, int, tuple[tuple[str, str], ...]]


def _parse_installer(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace").strip()


_PARSERS: Mapping[str, Callable[[bytes], Parsed]] = {
    "METADATA": parse_metadata,
    "RECORD": parse_record,
    "INSTALLER": _parse_installer,
    "direct_url.json": parse_direct_url,
}


def info_file(path: str) -> str | None:
    """Return the name of the parser for a file, by its path; None for what is no metadata."""
    directory, _, name = path.rpartition("/")
    if directory.endswith(".dist-info"):
        return name if name in _PARSERS else None
    if directory.endswith(".egg-info"):
        return "METADATA" if name == "PKG-INFO" else None
    return "METADATA" if name.endswith(".egg-info") else None


def parse(parser: str, data: bytes) -> Parsed:
    """Parse a metadata file. What cannot be read is a value, too."""
    try:
        return _PARSERS[parser](data)
    except Unreadable as error:
        return error


def read_inventory(
    view: ImageView,
    sites: Sequence[str] = (),
    *,
    memo: Memo | None = None,
    records: bool = True,
) -> Inventory:
    """Read the inventory of an image, without `records` as if no distribution had a RECORD.

    `sites` are its site-packages directories ("usr/local/lib/python3.12/dist-packages"); without
    any, every directory of that kind counts. All files are read from the image in one batch.
    """
    memo = memo or Memo()
    tree = view.tree
    given = {real for site in sites if (real := tree.real_path(site)) is not None}
    wanted = given or set(find_sites(tree))
    infos = list(find_infos(tree, wanted))
    if not records:
        infos = [info._replace(files=_without_record(info.files)) for info in infos]
    _parse_all(view, infos, memo)
    distributions: list[Distribution] = []
    broken: list[BrokenMetadata] = []
    for info in infos:
        try:
            distributions.append(_distribution(info, memo))
        except Unreadable as error:
            name = canonicalize_name(_stem(info).split("-", 1)[0])
            broken.append(BrokenMetadata(info.path, name, str(error), info.layer))
    return Inventory(
        tuple(sorted(wanted)),
        tuple(sorted(distributions, key=lambda one: (one.name, one.path))),
        tuple(sorted(broken)),
    )


def _without_record(files: Mapping[str, Located]) -> Mapping[str, Located]:
    return {parser: located for parser, located in files.items() if parser != "RECORD"}


def _parse_all(view: ImageView, infos: Iterable[Info], memo: Memo) -> None:
    missing: dict[tuple[str, str], str] = {}
    for info in infos:
        for parser, located in info.files.items():
            key = (parser, located.entry.sha256)
            if located.entry.size > _MAX_FILE:
                memo.parsed[key] = Unreadable(f"it has {located.entry.size:,} bytes")
            if key not in memo.parsed:
                missing[key] = located.entry.path
    contents = view.read_many(sorted(set(missing.values()))) if missing else {}
    for key, path in missing.items():
        data = contents[path]
        memo.parsed[key] = parse(key[0], data) if key[0] != "RECORD" else _record(path, data, memo)


def _record(path: str, data: bytes, memo: Memo) -> Record | Unreadable:
    """Parse a RECORD: of one that stages change, row for row, only the lines that are new."""
    before = memo.records.get(path)
    try:
        record = parse_record(data, rows_by_line(*before) if before else None)
    except Unreadable as error:
        return error
    memo.records[path] = data, record
    return record


def _distribution(info: Info, memo: Memo) -> Distribution:
    """Raises Unreadable when the dist-info does not identify a distribution."""
    hashes = tuple((parser, at.entry.sha256) for parser, at in info.files.items())
    key = (info.path, info.site, info.requested, info.layer, hashes)
    if key not in memo.distributions:
        memo.distributions[key] = _parsed_distribution(info, memo)
    return memo.distributions[key]


def _parsed_distribution(info: Info, memo: Memo) -> Distribution:
    parsed = {parser: memo.parsed[parser, at.entry.sha256] for parser, at in info.files.items()}
    metadata = parsed.get("METADATA")
    if isinstance(metadata, Unreadable):
        raise Unreadable(f"METADATA: {metadata}")
    if not isinstance(metadata, Metadata):
        raise Unreadable("it has no METADATA")
    _check_directory(info, metadata)
    record, installer = parsed.get("RECORD"), parsed.get("INSTALLER")
    origin = parsed.get("direct_url.json")
    if isinstance(origin, Unreadable):
        raise Unreadable(f"direct_url.json: {origin}")
    return Distribution(
        name=canonicalize_name(metadata.name),
        spelled=metadata.name,
        version=metadata.version,
        path=info.path,
        site=info.site,
        layer=info.layer,
        requires=metadata.requires,
        record=record if isinstance(record, tuple) else None,
        record_fault=str(record) if isinstance(record, Unreadable) else "",
        installer=installer if isinstance(installer, str) else "",
        origin=origin if isinstance(origin, Origin) else None,
        requested=info.requested,
    )


def _stem(info: Info) -> str:
    return info.path.rpartition("/")[2].rpartition(".")[0]


def _check_directory(info: Info, metadata: Metadata) -> None:
    """Hold the name of a dist-info directory against its METADATA.

    Old tools left hyphens in names and versions, so every split is tried. An egg-info carries a
    Python version besides, or no version at all, and is not judged.
    """
    if info.path.endswith(".egg-info"):
        return
    parts = _stem(info).split("-")
    for cut in range(1, len(parts)):
        name, version = "-".join(parts[:cut]), "-".join(parts[cut:])
        if canonicalize_name(name) == canonicalize_name(metadata.name) and same_version(
            version.replace("_", "-"), metadata.version
        ):
            return
    raise Unreadable(f"METADATA says {metadata.name} {metadata.version}, its directory does not")


def same_version(one: str, other: str) -> bool:
    """Whether two texts are one version (PEP 440), local part included; other texts if equal."""
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other

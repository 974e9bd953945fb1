"""Strict reading of `[tool.sm121-chain]`: the lock's own inputs, its bases and its ledger."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from pipeline.errors import UsageError
from pipeline.lock.entries import SHA256
from pipeline.lock.model import (
    Base,
    Captured,
    Known,
    LockedDeb,
    LockedWheel,
    Override,
    Removal,
    Zstd,
)
from pipeline.lock.table import Table, sorted_or_fault
from pipeline.oci.references import parse_pinned
from pipeline.wheels.target import MACHINES, Target

_HEX = "64 lower-case hex digits"
_CLIMBS = re.compile(r"//|/\.{1,2}(?:/|$)|[\x00-\x1f]")
_MOST_EPOCH = 8**11 - 1  # a tar header has 11 octal digits for it
_MOST_LEVEL = 22  # of zstd
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"


@dataclass(frozen=True)
class Tool:
    """Everything of a lock that PEP 751 does not know."""

    epoch: int
    exclude_newer: str
    newer: Mapping[str, str]
    requirements: tuple[str, ...]
    zstd: Zstd
    bases: dict[str, Base]
    overrides: tuple[Override, ...]
    removals: tuple[Removal, ...]
    known: tuple[Known, ...]
    artifacts: tuple[LockedWheel, ...]

    def with_newer(self, moments: Mapping[str, str]) -> Tool:
        """The same, with packages that may be newer than `exclude_newer` says."""
        return replace(self, newer={**self.newer, **moments})


def read_tool(table: Table, groups: Collection[str], *, resolved: bool = True) -> Tool:
    """Read the table; `groups` are the dependency groups that the lock declares.

    Without `resolved` the .deb lists may be missing, or be others than those asked for.
    """
    epoch = table.integer("epoch", most=_MOST_EPOCH) or 0
    moment = table.text(
        "exclude-newer", pattern=_MOMENT, like="a moment such as 2026-11-20T00:00:00Z"
    )
    _moment(table, "exclude-newer", moment)
    later = table.table("newer", required=False)
    newer = {n: later.text(n, pattern=_MOMENT, like="a moment") for n in sorted(later.values)}
    for name, text in newer.items():
        _moment(later, name, text)
    requirements = table.texts("requirements")
    for position, requirement in enumerate(requirements):
        _requirement(table, f"requirements[{position}]", requirement)
    compression = table.table("zstd")
    zstd = Zstd(
        compression.integer("level", least=1, most=_MOST_LEVEL) or 0, compression.text("library")
    )
    compression.close()
    bases = {}
    listed = table.table("bases")
    for name in sorted(listed.values):
        base = listed.table(name)
        bases[name] = _base(name, base, resolved)
        base.close()
    overrides = tuple(_override(t, bases, groups) for t in table.tables("overrides"))
    places = [(o.base, o.group, o.name) for o in overrides]
    for position, place in enumerate(places):
        if place in places[:position]:
            table.fault(f"overrides[{position}]", f"{place[2]} stands twice for the same group")
    removals = tuple(_removal(t, bases, groups) for t in table.tables("removals"))
    known = tuple(_known(t) for t in table.tables("known"))
    artifacts = tuple(_artifact(t) for t in table.tables("artifacts"))
    pins = [(artifact.name, artifact.version) for artifact in artifacts]
    sorted_or_fault(table, "artifacts", pins, [f"{name} {version}" for name, version in pins])
    table.close()
    return Tool(
        epoch, moment, newer, requirements, zstd, bases, overrides, removals, known, artifacts
    )


def _moment(table: Table, key: str, text: str) -> None:
    try:
        if text:
            datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        table.fault(key, f"{text!r} is no moment: there is no such day or time")


def _requirement(table: Table, key: str, text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement as error:
        table.fault(key, f"{text!r} is no requirement: {str(error).splitlines()[0]}")
        return None


def _base(name: str, table: Table, resolved: bool) -> Base:
    platform = table.text("platform")
    machines = {f"linux/{architecture}": machine for architecture, machine in MACHINES.items()}
    if platform and platform not in machines:
        table.fault("platform", f"{platform!r} is not one of {', '.join(sorted(machines))}")
    python = table.text(
        "python", pattern=r"3\.\d{1,2}(\.\d{1,3})?", like="a version such as 3.11.2"
    )
    glibc = table.text("glibc", pattern=r"2\.\d{1,3}", like="a version such as 2.36")
    site = table.text("site-packages", pattern=r"/[^/].*[^/]", like="an absolute path")
    if site and _CLIMBS.search(site):
        table.fault("site-packages", f"{site!r} is not in its one spelling")
    major, _, minor = (glibc or "2.36").partition(".")
    target = Target(
        python=python or "3.11",
        machine=machines.get(platform, "aarch64"),
        glibc=(int(major), int(minor)),
        site_packages=site,
    )
    if "image" in table.values:
        image, suite = table.text("image"), ""
        digest = table.text("digest", pattern=f"sha256:{SHA256}", like=f"sha256: and {_HEX}")
        try:
            parse_pinned(f"{image}@{digest}")
        except UsageError as error:
            table.fault("image", error.message.replace(f"@{digest}", ""))
        captured = _captured(table.table("captured")) if "captured" in table.values else None
        packages: tuple[str, ...] = ()
        debs: tuple[LockedDeb, ...] = ()
    else:
        image, digest, suite, captured = "", "", table.text("suite"), None
        packages = table.texts("packages")
        sorted_or_fault(table, "packages", list(packages), list(packages))
        debs = tuple(_deb(t) for t in table.tables("debs", required=resolved))
        names = [deb.name for deb in debs]
        sorted_or_fault(table, "debs", names, names)
        for position, package in enumerate(packages):
            if resolved and package not in names:
                table.fault(f"packages[{position}]", f"{package} is not among the debs")
    inventory = []
    for position, text in enumerate(table.texts("inventory", required=False)):
        found, _, version = text.partition("==")
        if not version or canonicalize_name(found) != found:
            table.fault(f"inventory[{position}]", f"{text!r} is not <normalized name>==<version>")
        inventory.append((found, version))
    return Base(
        name, platform, target, image, digest, suite, packages, debs, tuple(inventory), captured
    )


def _captured(table: Table) -> Captured:
    path = table.text("path", pattern=r"[^/\s:][^\s:]*", like="a path beside the lock")
    if _CLIMBS.search(f"/{path}"):
        table.fault("path", f"{path!r} is not in its one spelling")
    size = table.integer("size", least=1) or 0
    captured = Captured(path, table.text("sha256", pattern=SHA256, like=_HEX), size)
    table.close()
    return captured


def _deb(table: Table) -> LockedDeb:
    name = table.text("name", pattern=r"[a-z0-9][a-z0-9+.-]+", like="a Debian package name")
    version = table.text("version")
    path = table.text("path", pattern=r"pool/main/[^\s:]+\.deb", like="pool/main/….deb")
    if _CLIMBS.search(path):
        table.fault("path", f"{path!r} is not in its one spelling")
    size = table.integer("size", least=1) or 0
    deb = LockedDeb(name, version, path, size, table.text("sha256", pattern=SHA256, like=_HEX))
    table.close()
    return deb


def _place(table: Table, bases: Collection[str], groups: Collection[str]) -> tuple[str, str]:
    """The base and the group that an entry is for; without `base` it is `wheels`."""
    base = table.text("base", required=False) or "wheels"
    if base not in bases:
        table.fault("base", f"no base '{base}' in this lock")
    group = table.values.get("group")
    if group == "":
        table.judged_elsewhere("group")  # "" is the base itself
        return base, ""
    group = table.text("group")
    if group and group not in groups:
        table.fault("group", f"no dependency group '{group}' in this lock")
    return base, group


def _override(table: Table, bases: Collection[str], groups: Collection[str]) -> Override:
    base, group = _place(table, bases, groups)
    text = table.text("requirement")
    requirement = _requirement(table, "requirement", text) if text else None
    if requirement is not None:
        exact = [s.operator == "==" and not s.version.endswith("*") for s in requirement.specifier]
        if exact != [True] or requirement.marker or requirement.url:
            table.fault("requirement", f"{text!r} is not <name>==<version>")
            requirement = None
    against = table.texts("against")
    for position, who in enumerate(against):
        if not _wish(who):
            problem = f"{who!r} is not '<distribution> <version> wants <specifier>'"
            table.fault(f"against[{position}]", problem)
    why = table.text("why")
    review = _date(table, "review")
    url = table.text("url", required=False, pattern=r"https://\S+\.whl", like="https://….whl")
    sha256 = ""
    if url:
        sha256 = table.text("sha256", pattern=SHA256, like=_HEX)
    table.close()
    held = requirement or Requirement("faulty==0")
    return Override(base, group, held, against, why, review, url, sha256)


def _wish(text: str) -> bool:
    """Whether a text says who wants what: `torch 2.13.0 wants ==2.29.7`."""
    who, _, what = text.partition(" wants ")
    try:
        SpecifierSet(what)
    except InvalidSpecifier:
        return False
    return bool(what) and len(who.split(" ")) == 2


def _date(table: Table, key: str) -> date:
    text = table.text(key, pattern=r"\d{4}-\d\d-\d\d", like="a date such as 2027-03-01")
    try:
        return date.fromisoformat(text) if text else date.min
    except ValueError:
        table.fault(key, f"{text!r} is no day")
        return date.min


def _removal(table: Table, bases: Collection[str], groups: Collection[str]) -> Removal:
    base, group = _place(table, bases, groups)
    removal = Removal(base, group, table.text("distribution"), table.text("why"))
    table.close()
    return removal


def _known(table: Table) -> Known:
    owner = table.text("owner", required=False)
    sha256 = table.text("sha256", required=False, pattern=SHA256, like=_HEX)
    if ("owner" in table.values) == ("sha256" in table.values):
        table.fault("", "exactly one of owner and sha256 is needed")
    known = Known(
        table.text("rule", pattern=r"[a-z][a-z0-9-]+", like="a rule id"),
        table.text("distribution"),
        table.text("path"),
        table.text("why"),
        owner,
        sha256,
    )
    table.close()
    return known


def _artifact(table: Table) -> LockedWheel:
    """A wheel of which stages take single files; `why` is for people."""
    name = table.text("name")
    if name and canonicalize_name(name) != name:
        table.fault("name", f"{name!r} is not normalized: {canonicalize_name(name)}")
    version = table.text("version")
    filename = table.text("filename", pattern=r"[^/\s]+\.whl", like="the name of a wheel file")
    if filename and version and version not in filename:
        table.fault("filename", f"{filename!r} is not of version {version}")
    size = table.integer("size", least=1)
    sha256 = table.text("sha256", pattern=SHA256, like=_HEX)
    table.text("why")
    table.close()
    return LockedWheel(name, version, filename, size, sha256)

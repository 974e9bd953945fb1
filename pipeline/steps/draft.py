"""The draft of a stage: the parent's tree with what goes and what comes, before a byte is written.

It answers what the image would be ("which content has this path now?") and ends as an Order.
"""

from __future__ import annotations

import hashlib
import posixpath
import zipfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.version import Version

from pipeline.errors import Refusal
from pipeline.inventory import jit
from pipeline.inventory.distributions import Inventory, Memo, read_inventory
from pipeline.inventory.owners import Owners, RowMemo
from pipeline.oci.index import DIRECTORY
from pipeline.oci.view import LayersView
from pipeline.patching.record import rewrite_record
from pipeline.steps.order import NewFile, Order, own_modes
from pipeline.wheels.conflicts import Owned, in_the_way, resolve_conflicts
from pipeline.wheels.destination import Plan
from pipeline.wheels.known import Known
from pipeline.wheels.layer import WheelFile, plan_wheel
from pipeline.wheels.remove import record_paths, removed_files, whiteouts
from pipeline.wheels.target import Target

# One for the life of a worker process: the images of a chain share nearly all of their metadata.
_MEMO = Memo()
_ROWS = RowMemo()


class Draft:
    """A stage on top of `view`. Building one plans removals and installs, and verifies them.

    `removed` and `installed` are the lock's delta: {name, version, filename, sha256}, the latter
    with the wheel's place on disk. Raises Refusal for what cannot be removed or installed.
    """

    def __init__(
        self,
        view: LayersView,
        target: Target,
        known: Sequence[Known],
        *,
        removed: Sequence[Mapping[str, Any]],
        installed: Sequence[tuple[Mapping[str, Any], Path]],
    ):
        self.target = target
        self.site = target.site_packages.lstrip("/")
        self.patched: dict[str, tuple[str, str]] = {}
        self._view = view
        self._known = known
        self._installed = {wheel["name"]: (wheel, path) for wheel, path in installed}
        self._archives: dict[str, zipfile.ZipFile] = {}
        self._new: dict[str, NewFile] = {}
        self._contents: dict[str, bytes] = {}
        self._overrides: dict[str, dict[str, str]] = {}
        self._inventory: Inventory = read_inventory(
            view, [target.site_packages], memo=_MEMO, records=False
        )
        self._owners = Owners(view, self._inventory, _ROWS)
        self._leaving = {wheel["name"] for wheel in removed}
        self._gone = self._plan_removals(removed)
        self._plans: dict[str, Plan] = {
            name: plan_wheel(WheelFile(path, wheel["filename"]), target, known)
            for name, (wheel, path) in self._installed.items()
        }
        self._leave_out = self._plan_conflicts()
        self._sources = {
            path: (name, file.member)
            for name, plan in self._plans.items()
            for path, file in plan.files.items()
            if path not in self._leave_out.get(name, {})
        }

    def _plan_removals(self, removed: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the files that go with the distributions that go."""
        records: dict[str, str] = {}
        missing = []
        for wheel in removed:
            name = wheel["name"]
            one = self._inventory.the_one(name)
            if one is None or Version(one.version) != Version(wheel["version"]):
                found = [d.version for d in self._inventory.by_name.get(name, ())]
                missing.append(f"{name} {wheel['version']}: the parent has {found or 'none'}")
            else:
                records[name] = f"{one.path}/RECORD"
        if missing:
            raise Refusal(
                "the parent image does not hold what is to be removed",
                details=missing,
                hint="the lock and the parent disagree; audit the parent",
            )
        data = self._view.read_many(records.values())
        paths = {
            path
            for name, record in records.items()
            for path in record_paths(data[record], self.target, name)
        }
        kept = {
            path for path, owner in self._owners.of_each(paths) if owner.name not in self._leaving
        }
        return removed_files(self._view.tree, paths, kept=kept)

    def _plan_conflicts(self) -> dict[str, dict[str, str]]:
        if not self._plans:
            return {}
        nodes = self._view.tree.nodes
        files = {path for plan in self._plans.values() for path in plan.files}
        there = [
            path
            for path in in_the_way(self._view.tree, files)
            if path in nodes and nodes[path].entry.has_content
        ]
        owned = {
            path: Owned(owner.name, nodes[path].entry.sha256)
            for path, owner in self._owners.of_each(there)
            if owner.name not in self._leaving
        }
        return resolve_conflicts(
            list(self._plans.values()), self.target, owned=owned, known=self._known
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing would change."""
        return not (self._gone or self._new or self._installed)

    @cached_property
    def versions(self) -> Mapping[str, Version]:
        """The distributions of the finished stage by canonical name."""
        versions = {
            d.name: Version(d.version)
            for d in self._inventory.distributions
            if d.name not in self._leaving
        }
        for name, (wheel, _) in self._installed.items():
            versions[name] = Version(wheel["version"])
        return versions

    @property
    def python(self) -> str:
        """Major and minor version of the image's Python, as syntax is judged: "3.11"."""
        return ".".join(map(str, self.target.python_version))

    def distribution_files(self, name: str) -> list[str]:
        """Return the files of a distribution in the finished stage, relative to site-packages."""
        if name in self._plans:
            paths = list(self._plans[name].files)
        else:
            one = self._inventory.the_one(name)
            paths = self._owners.files(one) if one else []
        prefix = self.site + "/"
        return [path[len(prefix) :] for path in paths if path.startswith(prefix)]

    def read(self, path: str) -> bytes | None:
        """Return the content of an image path in the finished stage, None if there is no file."""
        if path in self._new:
            return self._contents[self._new[path].sha256]
        if path in self._sources:
            name, member = self._sources[path]
            override = self._overrides.get(name, {}).get(path)
            if override:
                return self._contents[override]
            # The whole file was verified by its sha256 when it entered the wheelhouse.
            return self._archive(name).read(member) if member else None
        real = self._view.tree.real_path(path)
        if real is None or real in self._gone:
            return None
        found = self._view.tree.get(real)
        if found is None or not found.entry.has_content:
            return None
        return self._view.read_many([real])[real]

    def _archive(self, name: str) -> zipfile.ZipFile:
        """Return the wheel of a distribution that comes; it stays open as long as the draft."""
        if name not in self._archives:
            self._archives[name] = zipfile.ZipFile(self._installed[name][1])
        return self._archives[name]

    def read_site(self, path: str) -> bytes | None:
        """Return the content of a path relative to site-packages."""
        return self.read(f"{self.site}/{path}")

    def patch(self, path: str, data: bytes, before: str) -> None:
        """Replace the content of an existing file, with its owner's RECORD and stale bytecode.

        `path` is relative to site-packages, `before` the hex sha256 of the file as it was.
        """
        place = f"{self.site}/{path}"
        sha256 = self._keep(data)
        self.patched[place] = (before, sha256)
        if path.startswith(f"{jit.SOURCES}/"):
            self._drop_kernels()
        if place in self._sources:
            name, _ = self._sources[place]
            self._overrides.setdefault(name, {})[place] = sha256
            return
        real = self._view.tree.real_path(place) or place
        mode = self._view.tree.nodes[real].entry.mode
        self._new[real] = NewFile(real, mode, sha256, len(data))
        stale = self._drop_bytecode(real)
        for path_changed in (real, *stale):
            self._rewrite_records(path_changed, data if path_changed == real else None)

    def put(self, path: str, data: bytes, mode: int) -> None:
        """Add a file at an image path; a link on the way is followed, as the runtime will."""
        parent, base = posixpath.split(path)
        real = posixpath.join(self._view.tree.real_path(parent) or parent, base)
        self._check_place(path, real)
        self._new[real] = NewFile(real, mode, self._keep(data), len(data))

    def _check_place(self, path: str, real: str) -> None:
        """Refuse a file where a directory is, or below what is none."""
        nodes = self._view.tree.nodes
        found = nodes.get(real)
        blocked = real if found and found.entry.type == DIRECTORY else ""
        above = posixpath.dirname(real)
        while above and not blocked:
            found = nodes.get(above)
            blocked = above if found and found.entry.type != DIRECTORY else ""
            above = posixpath.dirname(above)
        if blocked:
            kind = "a directory" if blocked == real else "no directory"
            raise Refusal(
                f"/{path} cannot be a file of this stage: /{blocked} is {kind} in the parent image",
                hint="give files another destination",
            )
        if real in self._sources:
            raise Refusal(
                f"/{path} cannot be a file of this stage: {self._sources[real][0]} brings it",
                hint="make the change a patch, or give the file another destination",
            )

    def _keep(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self._contents[sha256] = data
        return sha256

    def _drop_bytecode(self, path: str) -> list[str]:
        """Let the bytecode of a patched source go; Python would believe its mtime and size."""
        parent, base = posixpath.split(path)
        stem, suffix = posixpath.splitext(base)
        if suffix != ".py":
            return []
        stale = []
        for found in self._view.tree.under(f"{parent}/__pycache__"):
            name = posixpath.basename(found.entry.path)
            if name.startswith(f"{stem}.") and name.endswith(".pyc"):
                self._gone.add(found.entry.path)
                stale.append(found.entry.path)
        return stale

    def _drop_kernels(self) -> None:
        """Let the kernels go that were compiled from the sources before the patch."""
        version = str(self.versions.get(jit.DISTRIBUTION, ""))
        nodes = self._view.tree.nodes
        self._gone |= {
            one.path
            for one in jit.cached(self._view.tree.select(jit.is_cached))
            if one.version == version and nodes[one.path].entry.type != DIRECTORY
        }

    def _rewrite_records(self, path: str, data: bytes | None) -> None:
        """Make the RECORDs that name a file true again; None means that the file is gone."""
        for distribution, row in self._owners.of(path):
            if distribution.name in self._leaving:
                continue
            record = f"{distribution.path}/RECORD"
            old = self.read(record)
            if old is None:
                continue
            new, _ = rewrite_record(
                old, {row: data} if data is not None else {}, () if data is not None else (row,)
            )
            mode = self._view.tree.nodes[record].entry.mode
            self._new[record] = NewFile(record, mode, self._keep(new), len(new))

    def parent_hashes(self, directory: str) -> dict[str, str]:
        """Return path -> hex sha256 of every file of the parent below a directory."""
        nodes = self._view.tree.under(directory)
        return {node.entry.path: node.entry.sha256 for node in nodes if node.entry.sha256}

    def merged_hashes(self, directory: str) -> dict[str, str]:
        """Return path -> hex sha256 of every file of the finished stage below a directory."""
        inside = f"{directory}/"
        hashes = self.parent_hashes(directory)
        for path in self._gone:
            hashes.pop(path, None)
        for path, (name, _) in self._sources.items():
            if path.startswith(inside):
                override = self._overrides.get(name, {}).get(path)
                hashes[path] = override or self._plans[name].files[path].sha256
        new = {path: file.sha256 for path, file in self._new.items() if path.startswith(inside)}
        return hashes | new

    def order(self) -> tuple[Order, Mapping[str, bytes]]:
        """Return the finished order and the contents that it names."""
        arriving = {*self._new, *self._sources}
        order = Order(
            # What comes again needs no whiteout: the new entry covers the old one.
            whiteouts=whiteouts(self._view.tree, self._gone - arriving, arriving),
            files=[self._new[path] for path in sorted(self._new)],
            wheels=[self._installed[name][0] for name in sorted(self._installed)],
            leave_out=self._leave_out,
            overrides=self._overrides,
            directories=own_modes(self._view.tree),
        )
        used = {file.sha256 for file in order.files}
        used.update(sha for files in self._overrides.values() for sha in files.values())
        return order, {sha256: self._contents[sha256] for sha256 in sorted(used)}

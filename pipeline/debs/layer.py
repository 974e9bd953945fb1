"""The Debian layer: .debs unpacked without running their scripts, and what those would make."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pipeline.debs.accounts import accounts, shells
from pipeline.debs.alternatives import alternatives
from pipeline.debs.archive import Deb
from pipeline.debs.certificates import certificates
from pipeline.debs.dpkg import Installed, conffile_names, database, kept_conffiles, parse_control
from pipeline.debs.ldcache import ABIS, Abi, cache, is_library
from pipeline.debs.nodes import Node
from pipeline.debs.pam import pam
from pipeline.debs.scripts import check_scripts
from pipeline.debs.system import is_needed, system_files
from pipeline.debs.unpack import Unpacker, merged
from pipeline.errors import Refusal
from pipeline.oci.index import LayerIndex
from pipeline.oci.layer import LayerWriter
from pipeline.pins import LockedDeb


def write_debian_layer(
    debs: Sequence[tuple[Path, LockedDeb]],
    out: Path,
    *,
    epoch: int,
    level: int,
    architecture: str = "arm64",
) -> LayerIndex:
    """Write one layer that holds the given packages as an installed Debian.

    The order of `debs` plays no part. `epoch` is in seconds since 1970, `level` is zstd's.
    Raises Refusal when a file is not the locked one, is no sound package, is for another
    architecture, has a script that nothing stands for, or disagrees with another package.
    """
    abi = ABIS[architecture]
    with LayerWriter(out, epoch=epoch, level=level) as writer:
        kept: dict[str, bytes] = {}
        wanted: set[str] = set()
        unpacker = Unpacker(
            writer, lambda path: path in wanted or is_needed(path) or is_library(path, abi)
        )
        packages: list[Installed] = []
        for path, locked in sorted(debs, key=lambda pair: (pair[1].name, pair[1].sha256)):
            _check_locked(path, locked)
            packages.append(_install(Deb(path), locked, unpacker, wanted, kept, architecture))
        unpacker.add_merged_links()
        present = {merged(name) for package in packages for name in package.names}
        nodes = _nodes(packages, kept, unpacker.links, present, abi, epoch, architecture)
        _write(writer, nodes)
        return writer.close()


def _check_locked(path: Path, locked: LockedDeb) -> None:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != locked.sha256:
        raise Refusal(
            f"{path.name}: has sha256 {digest}, the lock says {locked.sha256}",
            hint="remove the file and fetch it again",
        )


def _install(
    deb: Deb,
    locked: LockedDeb,
    unpacker: Unpacker,
    wanted: set[str],
    kept: dict[str, bytes],
    architecture: str,
) -> Installed:
    files = deb.control()
    with deb.blamed():
        fields = parse_control(files["control"].data)
        is_named = f"{fields['Package']} {fields['Version']}"
        if is_named != f"{locked.name} {locked.version}":
            raise Refusal(f"is {is_named}, not {locked.name} {locked.version}")
        if fields["Architecture"] not in (architecture, "all"):
            raise Refusal(f"is for {fields['Architecture']}, not for {architecture}")
        check_scripts(locked.name, files)
        wanted |= {merged(name) for name in conffile_names(files)}
    unpacked = unpacker.add(locked.name, deb)
    kept |= unpacked.kept
    with deb.blamed():
        conffiles = kept_conffiles(files, unpacked.kept)
    return Installed(fields, files, unpacked.names, conffiles)


def _nodes(
    packages: Sequence[Installed],
    kept: Mapping[str, bytes],
    links: Mapping[str, str],
    present: Collection[str],
    abi: Abi,
    epoch: int,
    architecture: str,
) -> Iterator[Node]:
    names = {package.name for package in packages}
    yield from system_files(kept, names)
    yield from accounts(kept, names, epoch)
    yield from shells(kept)
    yield from pam(kept)
    yield from certificates(kept)
    yield from alternatives(present)
    yield from database(packages, architecture)
    libraries = {path: data for path, data in kept.items() if is_library(path, abi)}
    yield Node.file("etc/ld.so.cache", cache(libraries, links, abi))


def _write(writer: LayerWriter, nodes: Iterable[Node]) -> None:
    """Add the nodes sorted by path; directories that a package has brought stay as they are."""
    for node in sorted(nodes, key=lambda node: node.path):
        if node.link:
            writer.add_symlink(node.path, node.link)
        elif node.data is not None:
            writer.add_file(node.path, node.data, len(node.data), node.mode)
        elif node.path not in writer:
            writer.add_directory(node.path, node.mode)

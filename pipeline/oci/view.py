"""One interface over everything that can be looked into like an image."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from pipeline.errors import UsageError, system_trouble
from pipeline.oci.blob import Absent, Blob, NotHere
from pipeline.oci.files import read_files
from pipeline.oci.index import DIRECTORY, FILE, START, SYMLINK, Entry, LayerIndex, binary_start
from pipeline.oci.texts import Texts
from pipeline.oci.tree import Located, Tree

# What is neither read nor followed; a socket is in no layer.
_SPECIAL = {stat.S_IFCHR: "char", stat.S_IFBLK: "block", stat.S_IFIFO: "fifo"}


@dataclass(frozen=True)
class LayerInfo:
    """A layer of an image as its config tells it: digests and what made it (history)."""

    digest: str
    diff_id: str
    created_by: str = ""


class ImageView(Protocol):
    """What an audit looks at. `name` is for messages; `config` is the OCI config, {} if none."""

    @property
    def name(self) -> str: ...
    @property
    def tree(self) -> Tree: ...
    @property
    def layers(self) -> Sequence[LayerInfo]: ...
    @property
    def config(self) -> Mapping[str, Any]: ...
    def read_many(self, paths: Collection[str]) -> dict[str, bytes]:
        """Return contents by path (as in `tree.nodes`); raises KeyError for what is no file."""
        ...


@dataclass(frozen=True)
class LayersView:
    """An image given by the blobs and indexes of its layers, lowest first.

    `merged` is their merged tree, where the caller has it already. `config_digest` and
    `manifest_digest` are "sha256:<hex>", "" where they are not known. `texts` is what has been kept
    of layers; `at_hand` gives contents of entries of a layer, by path, that need not be read from
    its blob.
    """

    name: str
    blobs: Sequence[tuple[Blob, LayerIndex]]
    layers: Sequence[LayerInfo]
    config: Mapping[str, Any]
    merged: Tree | None = None
    config_digest: str = ""
    manifest_digest: str = ""
    texts: Texts | None = None
    at_hand: Callable[[int, Collection[Entry]], Mapping[str, bytes]] = lambda layer, entries: {}

    @cached_property
    def tree(self) -> Tree:
        """The merged tree of all layers."""
        return self.merged or Tree.merge(index.entries for _, index in self.blobs)

    def read_many(self, paths: Collection[str]) -> dict[str, bytes]:
        """Return contents by path, each read from the layer that the merged tree names.

        Raises NotHere, with every layer that is needed and absent, before others are read.
        """
        by_layer: dict[int, dict[str, list[str]]] = {}
        for path in paths:
            node = self.tree.nodes[path]
            if not node.entry.has_content:
                raise KeyError(path)
            layer, inner = self._origin(path, node)
            by_layer.setdefault(layer, {}).setdefault(inner, []).append(path)
        result: dict[str, bytes] = {}
        missing: list[str] = []
        for layer in sorted(by_layer, key=lambda layer: not self._is_absent(layer)):
            if missing and not self._is_absent(layer):
                break
            blob, index = self.blobs[layer]
            names = by_layer[layer]
            found = dict(self.at_hand(layer, [index.files[inner] for inner in names]))
            rest = [inner for inner in names if inner not in found]
            try:
                found |= read_files(blob, index, rest, self.texts)
            except NotHere as error:
                missing += error.digests
                continue
            for inner, data in found.items():
                result.update(dict.fromkeys(names[inner], data))
        if missing:
            raise NotHere(*missing)
        return result

    def _is_absent(self, layer: int) -> bool:
        return isinstance(self.blobs[layer][0], Absent)

    def _origin(self, path: str, found: Located) -> tuple[int, str]:
        """Return the layer, and the path in it, where the content of a merged path is.

        That is the same path, unless the layer named it through a link of a lower one, or it is a
        hard link to a file of a lower layer. Then any file with that content will do.
        """
        sha256 = found.entry.sha256
        there = self.blobs[found.layer][1].files.get(path)
        if there is not None and there.sha256 == sha256:
            return found.layer, path
        for layer in range(found.layer, -1, -1):
            for entry in self.blobs[layer][1].files.values():
                if entry.sha256 == sha256:
                    return layer, entry.path
        raise KeyError(path)


class RootfsView:
    """An unpacked tree on disk: the root of a file system, or any directory."""

    layers: Sequence[LayerInfo] = ()
    config: Mapping[str, Any] = {}

    def __init__(self, root: Path):
        """Raises UsageError when `root` is no directory."""
        if not root.is_dir():
            raise UsageError(f"rootfs:{root}: no such directory", hint="name an unpacked tree")
        self._root = root
        self.name = f"rootfs:{root}"

    @cached_property
    def tree(self) -> Tree:
        """The tree as it stands on disk; every regular file is hashed once.

        Raises OutsideTrouble for what may not be read: a part of a tree would be judged as if it
        were all.
        """
        try:
            return Tree.merge([list(self._entries())])
        except OSError as error:
            raise system_trouble(
                error,
                self.name,
                hint="read it as somebody who may (root, or `podman unshare`), while nobody writes",
            ) from error

    def _entries(self) -> Iterator[Entry]:
        pending = [("", self._root)]
        while pending:
            prefix, directory = pending.pop()
            with os.scandir(directory) as items:
                for item in items:
                    path = prefix + item.name
                    status = item.stat(follow_symlinks=False)
                    mode = stat.S_IMODE(status.st_mode)
                    if item.is_symlink():
                        link = os.readlink(item.path)  # noqa: PTH115  Path would tidy the text
                        yield Entry(path, SYMLINK, mode, link=link)
                    elif item.is_dir(follow_symlinks=False):
                        yield Entry(path, DIRECTORY, mode)
                        pending.append((path + "/", Path(item.path)))
                    elif stat.S_ISREG(status.st_mode):
                        yield _on_disk(path, Path(item.path), status)
                    elif kind := _SPECIAL.get(stat.S_IFMT(status.st_mode)):
                        yield Entry(path, kind, mode)

    def read_many(self, paths: Collection[str]) -> dict[str, bytes]:
        """Return contents by path; only what the tree shows as a regular file is opened."""
        result = {}
        for path in paths:
            if not self.tree.nodes[path].entry.has_content:
                raise KeyError(path)
            result[path] = (self._root / path).read_bytes()
        return result

    def open_file(self, path: str) -> BinaryIO:
        """Open a regular file of the tree for reading. Raises KeyError for anything else."""
        if not self.tree.nodes[path].entry.has_content:
            raise KeyError(path)
        return (self._root / path).open("rb")


def _on_disk(path: str, file: Path, status: os.stat_result) -> Entry:
    with file.open("rb") as stream:
        start = binary_start(stream.read(START))
        stream.seek(0)
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    mode, mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    return Entry(path, FILE, mode, status.st_size, sha256, start=start, mtime=mtime)

"""What was found out about the files of a layer, kept by the layer's digest.

The parsed metadata of its distributions, and what a loader reads of its binaries. Reading them out
of a layer takes long, and the layers of a line of images are nearly all the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.inventory.distributions import Memo, Parsed, info_file, parse
from pipeline.inventory.metadata import Metadata, Origin, RecordRow, Unreadable
from pipeline.oci.binary import ELF
from pipeline.oci.blob import Blob
from pipeline.oci.elf import Elf, read_elf
from pipeline.oci.files import read_files
from pipeline.oci.index import LayerIndex
from pipeline.oci.kept import keep, kept
from pipeline.oci.random import files_of
from pipeline.oci.texts import Texts
from pipeline.oci.view import ImageView, LayersView, RootfsView

_FORMAT = 1
_MAX_FILE = 8 * 1024 * 1024  # bytes; larger ones are read when they are asked for
_MAX_LAYER = 64 * 1024 * 1024
_ELF = ELF.hex()


def read_metadata(view: ImageView, cache: Path | None, memo: Memo) -> None:
    """Put the parsed metadata of every layer's distributions into `memo`.

    `cache` is the directory of the program's cache; what is not in it is read, and kept there.
    """
    if not isinstance(view, LayersView):
        return
    for blob, index in view.blobs:
        if index.digest in memo.layers:
            continue
        memo.layers.add(index.digest)
        find = partial(_metadata, texts=view.texts)
        for row in _facts(blob, index, cache and cache / "metadata", find):
            parser, sha256, value = row
            memo.parsed[parser, sha256] = _value(value)


def read_binaries(view: ImageView, cache: Path | None) -> Mapping[str, Elf]:
    """Return what the loader reads of every binary of an image, by the sha256 of the file."""
    found: dict[str, Elf] = {}
    if isinstance(view, LayersView):
        for blob, index in view.blobs:
            for sha256, soname, needed, rpath, runpath, executable in _facts(
                blob,
                index,
                cache and cache / "binaries",
                partial(_binaries, texts=view.texts),
            ):
                found[sha256] = Elf(soname, tuple(needed), rpath, runpath, executable)
    elif isinstance(view, RootfsView):
        for path, located in view.tree.nodes.items():
            if located.entry.start.startswith(_ELF):
                with view.open_file(path) as file:
                    if (elf := read_elf(file)) is not None:
                        found[located.entry.sha256] = elf
    return found


def _facts(
    blob: Blob,
    index: LayerIndex,
    cache: Path | None,
    find: Callable[[Blob, LayerIndex], Iterator[Any]],
) -> list[Any]:
    """Return the rows that `find` finds in a layer, from the cache where they are in it."""
    data = kept(cache, index.digest)
    if data is not None:
        document = json.loads(data)
        if document.get("format") == _FORMAT:
            rows: list[Any] = document["rows"]
            return rows
    rows = list(find(blob, index))
    text = json.dumps({"format": _FORMAT, "rows": rows}, separators=(",", ":"))
    keep(cache, index.digest, text.encode("ascii"))
    return rows


def _metadata(blob: Blob, index: LayerIndex, texts: Texts | None) -> Iterator[Any]:
    """Yield (parser, sha256, value) of the metadata files of a layer."""
    wanted: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    total = 0
    for entry in index.entries:
        if not entry.has_content or entry.size > _MAX_FILE or "-info" not in entry.path:
            continue
        parser = info_file(entry.path)
        if parser is None or (parser, entry.sha256) in seen or not entry.sha256:
            continue
        total += entry.size
        if total > _MAX_LAYER:
            break
        seen.add((parser, entry.sha256))
        wanted[entry.path] = parser
    hashes = {entry.path: entry.sha256 for entry in index.entries if entry.path in wanted}
    contents = read_files(blob, index, list(wanted), texts) if wanted else {}
    for path, parser in wanted.items():
        yield parser, hashes[path], _row(parse(parser, contents[path]))


def _row(value: Parsed) -> Any:
    """Return a parsed value as JSON, with a letter for its type."""
    match value:
        case Metadata():
            return ["m", value.name, value.version, value.requires]
        case Origin():
            return ["o", value.kind, value.url, value.sha256, value.commit]
        case Unreadable():
            return ["u", str(value)]
        case str():
            return ["s", value]
    return ["r", value]


def _value(row: Any) -> Parsed:
    match row:
        case ["m", name, version, requires]:
            return Metadata(name, version, tuple(requires))
        case ["o", kind, url, sha256, commit]:
            return Origin(kind, url, sha256, commit)
        case ["u", text]:
            return Unreadable(text)
        case ["s", text]:
            return str(text)
    return tuple(map(RecordRow._make, row[1]))


def _binaries(blob: Blob, index: LayerIndex, texts: Texts | None) -> Iterator[Any]:
    """Yield a row of every binary of a layer that the loader would load.

    Of a layer that allows no random access, the pass that indexed it has read them.
    """
    wanted: dict[str, str] = {}  # one path of each content
    for entry in index.entries:
        if entry.start.startswith(_ELF) and entry.sha256:
            wanted.setdefault(entry.sha256, entry.path)
    known = texts.binaries(index.digest) if texts is not None else {}
    for sha256 in wanted:
        if (found := known.get(sha256)) is not None:
            yield [sha256, *found]
    hashes = {path: sha256 for sha256, path in wanted.items() if sha256 not in known}
    for path, file in files_of(blob, index, list(hashes)):
        if (elf := read_elf(file)) is not None:
            yield [hashes[path], *elf]

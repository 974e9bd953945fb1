"""Layers of other makers: plain tars with the entries given, in the order given."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pipeline.oci.content import index_blob
from pipeline.oci.index import LayerIndex


class Item(NamedTuple):
    """A tar entry: `kind` is a type flag of tarfile, `target` where a link leads."""

    name: str
    kind: bytes = tarfile.REGTYPE
    data: bytes = b""
    target: str = ""
    mode: int = 0o644


def file(name: str, data: bytes | str = b"") -> Item:
    return Item(name, data=data.encode() if isinstance(data, str) else data)


def folder(name: str, mode: int = 0o755) -> Item:
    return Item(name.rstrip("/"), tarfile.DIRTYPE, mode=mode)


def symlink(name: str, target: str) -> Item:
    return Item(name, tarfile.SYMTYPE, target=target, mode=0o777)


def hardlink(name: str, target: str) -> Item:
    return Item(name, tarfile.LNKTYPE, target=target)


def whiteout(path: str) -> Item:
    parent, slash, base = path.rpartition("/")
    return Item(f"{parent}{slash}.wh.{base}")


def opaque(path: str) -> Item:
    return Item(f"{path.rstrip('/')}/.wh..wh..opq")


def tar(items: Sequence[Item], form: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for item in items:
            info = tarfile.TarInfo(item.name)
            info.type, info.linkname, info.mode = item.kind, item.target, item.mode
            info.size = len(item.data)
            archive.addfile(info, io.BytesIO(item.data))
    return buffer.getvalue()


def indexed(directory: Path, *layers: Sequence[Item]) -> list[tuple[Path, LayerIndex]]:
    """Write each layer as a blob and index it."""
    result = []
    for number, items in enumerate(layers):
        blob = directory / f"layer{number}"
        blob.write_bytes(tar(items))
        result.append((blob, index_blob(blob)))
    return result

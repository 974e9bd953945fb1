"""Build tiny wheels, right ones and wrong ones, with fixed bytes."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

AARCH64, X86_64, CUDA = 183, 62, 190
Row = tuple[str, str, str]


@dataclass(frozen=True)
class Item:
    """A member with odd properties: `mode` is the full st_mode, 0 for none."""

    data: bytes = b""
    mode: int = stat.S_IFREG | 0o644
    method: int = zipfile.ZIP_DEFLATED


@dataclass(frozen=True)
class KnownEntry:
    """A `known` entry of a lock."""

    rule: str
    distribution: str
    path: str
    owner: str = ""
    sha256: str = ""
    why: str = "because the test says so"


def elf(machine: int, *, bits: int = 2, order: int = 1) -> bytes:
    """Return a 64-byte ELF header; `bits` is EI_CLASS, `order` EI_DATA."""
    ident = b"\x7fELF" + bytes([bits, order, 1]) + bytes(9)
    return (ident + struct.pack("<HHI" if order == 1 else ">HHI", 3, machine, 1)).ljust(64, b"\0")


def row(path: str, data: bytes, algorithm: str = "sha256") -> Row:
    digest = hashlib.new(algorithm, data).digest()
    text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return path, f"{algorithm}={text}", str(len(data))


def make_wheel(
    directory: Path,
    name: str = "demo",
    version: str = "1.0",
    files: Mapping[str, bytes | str | Item] | None = None,
    *,
    tag: str = "py3-none-any",
    info: Mapping[str, str] | None = None,
    dist_info: str | None = None,
    record: Callable[[list[Row]], Sequence[Row]] = lambda rows: rows,
    extra: Sequence[tuple[str, Item]] = (),
    damage: Callable[[bytes], bytes] = lambda data: data,
) -> Path:
    """Write a wheel into `directory` and return its path.

    `info` holds more files of dist-info (None of its own: METADATA, WHEEL and RECORD come by
    themselves). `record` may change the rows, `extra` adds members that RECORD does not know,
    `damage` changes the finished file.
    """
    stem = name.replace("-", "_")
    meta = dist_info or f"{stem}-{version}.dist-info"
    items = {
        path: item
        if isinstance(item, Item)
        else Item(item if isinstance(item, bytes) else item.encode())
        for path, item in (files or {}).items()
    }
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: {tag}\n",
        **(info or {}),
    }
    items |= {f"{meta}/{file}": Item(text.encode()) for file, text in texts.items()}
    rows = [row(path, item.data) for path, item in items.items() if not path.endswith("/")]
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(record([*rows, (f"{meta}/RECORD", "", "")]))
    members = [*items.items(), *extra, (f"{meta}/RECORD", Item(table.getvalue().encode()))]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, item in members:
            entry = zipfile.ZipInfo("x", (1980, 1, 1, 0, 0, 0))
            entry.filename = entry.orig_filename = path  # odd names stay as they are
            entry.create_system = 3
            entry.external_attr = item.mode << 16
            entry.compress_type = item.method
            archive.writestr(entry, item.data)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{stem}-{version}-{tag}.whl"
    path.write_bytes(damage(buffer.getvalue()))
    return path

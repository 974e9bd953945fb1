"""Tiny .deb files, made here so that each carries exactly the fault that its test is about."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import zstandard

from pipeline.pins import LockedDeb

CONTROL = "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nDescription: tiny\n"
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor(level=3).compress,
}


def item(
    name: str, data: bytes = b"", mode: int = 0o644, **fields: object
) -> tuple[tarfile.TarInfo, bytes]:
    """Return a tar entry; `fields` are attributes of TarInfo (type, linkname, gid …)."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = mode
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def directory(name: str, mode: int = 0o755, **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    return item(name, mode=mode, type=tarfile.DIRTYPE, **fields)


def symlink(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return item(name, mode=0o777, type=tarfile.SYMTYPE, linkname=target)


def tar(items: Sequence[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info, data in items:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def ar(members: Sequence[tuple[str, bytes]]) -> bytes:
    parts = [b"!<arch>\n"]
    for name, data in members:
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n"
        parts += [header.encode("ascii"), data, b"\n" * (len(data) % 2)]
    return b"".join(parts)


class Maker:
    """Writes .debs below a directory and gives each with its lock entry."""

    item = staticmethod(item)
    directory = staticmethod(directory)
    symlink = staticmethod(symlink)
    tar = staticmethod(tar)
    ar = staticmethod(ar)
    compress = COMPRESS

    def __init__(self, root: Path):
        self.root = root

    def write(self, data: bytes, name: str = "tiny") -> Path:
        path = self.root / f"{name}.deb"
        path.write_bytes(data)
        return path

    def deb(
        self,
        items: Sequence[tuple[tarfile.TarInfo, bytes]] = (),
        *,
        name: str = "tiny",
        control: str = "",
        files: Mapping[str, bytes] | None = None,
        compression: str = ".xz",
        version: str = "1.0",
        arch: str = "arm64",
    ) -> tuple[Path, LockedDeb]:
        text = CONTROL.format(name=name, version=version, arch=arch) + control
        extra = [item(f"./{key}", value, 0o755) for key, value in (files or {}).items()]
        members = [
            ("debian-binary", b"2.0\n"),
            (
                "control.tar" + compression,
                COMPRESS[compression](
                    tar([directory("./"), item("./control", text.encode()), *extra])
                ),
            ),
            ("data.tar" + compression, COMPRESS[compression](tar([directory("./"), *items]))),
        ]
        path = self.write(ar(members), name)
        data = path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        return path, LockedDeb(name, version, f"pool/main/t/{name}.deb", len(data), sha256)


@pytest.fixture
def make(tmp_path: Path) -> Maker:
    directory = tmp_path / "debs"
    directory.mkdir()
    return Maker(directory)

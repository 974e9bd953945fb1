"""Write an OCI image layout (image-spec, image-layout.md): blobs by digest and one index.json.

Every write is to a temporary name and renamed; the index is replaced last. So a reader sees whole
images only, at any moment, whatever interrupts the writer.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import Refusal, UsageError
from pipeline.oci.image import (
    MEDIA_TYPE_INDEX,
    Image,
    Layer,
    canonical,
    sha256,
)
from pipeline.trust import Trust

REF_NAME = "org.opencontainers.image.ref.name"
_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'
_TEMPORARY = ".tmp-"


class LayoutWriter:
    """Puts images into the layout at `root`, which is made when it is not there.

    A blob that lies there already is kept when it is the same file as the one to be put, or when
    `trust` holds it for good; without it, it is written anew.

    One writer has the layout at a time, for as long as it lives; another one waits for it, and
    calls `waiting` before.

    Raises UsageError when `root` holds something that is no OCI layout: it is left alone.
    """

    def __init__(
        self,
        root: Path,
        trust: Trust | None = None,
        *,
        waiting: Callable[[], None] = lambda: None,
    ):
        self._root = root
        self._trust = trust
        self._blobs = root / "blobs" / "sha256"
        marker = root / "oci-layout"
        if root.exists() and not marker.exists() and (not root.is_dir() or any(_foreign(root))):
            raise UsageError(
                f"{root} exists and is no OCI image layout",
                hint="name another directory with --out, or remove this one",
            )
        root.mkdir(parents=True, exist_ok=True)
        self._lock(waiting)
        if not marker.exists():  # first: a directory with anything but it would not be ours
            self._write(marker, _LAYOUT)
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._manifests = self._read_index()

    def _lock(self, waiting: Callable[[], None]) -> None:
        held = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, held)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(held, fcntl.LOCK_EX)

    def put(self, tag: str, image: Image, layers: Iterable[tuple[Layer, Path]]) -> None:
        """Add an image under a tag, which it takes from any other image that had it."""
        for layer, blob in layers:
            self._link(blob, layer.digest, layer.size)
        for data in (image.config, image.manifest):
            self._write_blob(data)
        platform = json.loads(image.config)
        self._manifests[tag] = {
            "mediaType": image.media_type,
            "digest": image.digest,
            "size": len(image.manifest),
            "platform": {"architecture": platform["architecture"], "os": platform["os"]},
            "annotations": {REF_NAME: tag},
        }
        self._write_index()

    def held(self, digest: str, size: int) -> Path | None:
        """Return the place of a blob that lies here whole already, None if it does not."""
        path = self._path(digest)
        if self._trust is None or path.is_symlink():
            return None
        return path if self._trust.holds(path, path.name, size) else None

    def keep_only(self, tags: Iterable[str]) -> list[str]:
        """Drop all other tags, and every blob that no kept image reaches; return those tags."""
        keep = set(tags)
        dropped = sorted(self._manifests.keys() - keep)
        self._manifests = {tag: entry for tag, entry in self._manifests.items() if tag in keep}
        self._write_index()
        reached = set()
        for entry in self._manifests.values():
            manifest = json.loads(self._path(entry["digest"]).read_bytes())
            reached.add(entry["digest"])
            reached.add(manifest["config"]["digest"])
            reached.update(layer["digest"] for layer in manifest["layers"])
        for blob in self._blobs.iterdir():
            if f"sha256:{blob.name}" in reached:
                continue
            if not blob.is_dir() or blob.is_symlink():  # a directory is none of ours
                blob.unlink()
        for stale in self._root.glob(f"{_TEMPORARY}*"):
            stale.unlink(missing_ok=True)
        return dropped

    def _path(self, digest: str) -> Path:
        return self._blobs / digest.removeprefix("sha256:")

    def _read_index(self) -> dict[str, dict[str, Any]]:
        file = self._root / "index.json"
        if not file.exists():
            return {}
        try:
            entries = json.loads(file.read_bytes())["manifests"]
            return {entry["annotations"][REF_NAME]: entry for entry in entries}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refusal(
                f"{file}: no index of ours ({error})",
                hint="remove the directory; `build` fills it again from its cache",
            ) from error

    def _write_index(self) -> None:
        manifests = [self._manifests[tag] for tag in sorted(self._manifests)]
        document = {"schemaVersion": 2, "mediaType": MEDIA_TYPE_INDEX, "manifests": manifests}
        self._write(self._root / "index.json", canonical(document))

    def _write_blob(self, data: bytes) -> None:
        self._write(self._path(sha256(data)), data)

    def _write(self, path: Path, data: bytes) -> None:
        handle, name = tempfile.mkstemp(prefix=_TEMPORARY, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod(0o644)
            self._replace(Path(name), path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _replace(self, source: Path, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # below blobs/ nothing but blobs has a digest for a name
        source.replace(path)

    def _link(self, blob: Path, digest: str, size: int) -> None:
        """Give a blob its place: a hard link where the file system allows, otherwise a copy."""
        path = self._path(digest)
        if path.is_file() and path.stat().st_size == size:
            if path.samefile(blob):
                return
            trust = None if _same_device(path, blob) else self._trust
            if trust and trust.holds(path, path.name, size):
                return
        temporary = self._blobs / f"{_TEMPORARY}{path.name}"
        temporary.unlink(missing_ok=True)
        try:
            try:
                temporary.hardlink_to(blob)
            except OSError:
                shutil.copyfile(blob, temporary)
            self._replace(temporary, path)
            if self._trust is not None:
                if path.samefile(blob):
                    self._trust.linked(blob, path.name)
                else:
                    self._trust.record(path, path.name)
        finally:
            temporary.unlink(missing_ok=True)


def _foreign(root: Path) -> Iterator[Path]:
    """Yield what a writer that was stopped at its start does not leave."""
    return (path for path in root.iterdir() if not path.name.startswith(_TEMPORARY))


def _same_device(one: Path, other: Path) -> bool:
    return one.stat().st_dev == other.stat().st_dev

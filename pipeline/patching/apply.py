"""Writes fitting patches into an unpacked tree: everything, or nothing at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.patching.evaluate import evaluate
from pipeline.patching.model import Patch
from pipeline.patching.outcomes import Evaluation
from pipeline.patching.record import rewrite_record
from pipeline.patching.sources import Tree


@dataclass(frozen=True)
class Application:
    """What was done to a tree.

    `removed` are stale byte-code files, `unowned` patched files that no RECORD lists; both are
    relative to site-packages and sorted.
    """

    evaluation: Evaluation
    removed: tuple[str, ...] = ()
    unowned: tuple[str, ...] = ()


def apply_patches(patches: Sequence[Patch], tree: Tree) -> Application:
    """Evaluates all patches and writes the result when every one fits.

    Files keep their mode; files that share an inode with others (as uv installs them) are
    replaced, never written into. The rows of RECORD follow. A run on a tree that carries the
    patches changes nothing. Raises OutsideTrouble when the disk does not do its part, Refusal when
    a file was changed meanwhile; the tree is then as it was.
    """
    source = tree.source()
    evaluation = evaluate(patches, tree.read, tree.versions, tree.python, source.candidates)
    if not evaluation.files:
        return Application(evaluation)
    images = {path: image.data for path, image in evaluation.files.items()}
    stale = sorted(name for path in images for name in _stale(tree, path))
    records, unowned = _records(tree, images, stale)
    writes = _Writes()
    for path, image in evaluation.files.items():
        real = tree.locate(path)
        if real is None:
            raise Refusal(f"{path} is gone, it was there a moment ago")
        writes.add(real, image.data, image.before)
    for record, data in records.items():
        writes.add(record, data, hashlib.sha256(record.read_bytes()).hexdigest())
    writes.run([tree.site / name for name in stale])
    return Application(evaluation, tuple(stale), unowned)


def _stale(tree: Tree, path: str) -> list[str]:
    """The byte code of a Python file: it would be made anew, or wrongly trusted (PEP 552)."""
    folder, _, name = path.rpartition("/")
    if not name.endswith(".py"):
        return []
    cache = tree.site / folder / "__pycache__"
    made = re.compile(re.escape(name.removesuffix(".py")) + r"\.[^.]+(?:\.opt-\w+)?\.pyc")
    if not cache.is_dir() or not cache.resolve().is_relative_to(tree.root):
        return []
    prefix = f"{folder}/__pycache__" if folder else "__pycache__"
    return [f"{prefix}/{p.name}" for p in sorted(cache.iterdir()) if made.fullmatch(p.name)]


def _records(
    tree: Tree, images: Mapping[str, bytes], stale: Sequence[str]
) -> tuple[dict[Path, bytes], tuple[str, ...]]:
    """New bytes for every RECORD that lists a changed file, and the files that none lists."""
    records: dict[Path, bytes] = {}
    owned: set[str] = set()
    for metadata in tree.metadata.values():
        record = metadata / "RECORD"
        if not record.is_file() or not record.resolve().is_relative_to(tree.root):
            continue
        before = record.read_bytes()
        if not any(path.encode() in before for path in images):
            continue
        after, found = rewrite_record(before, images, stale)
        if found:
            owned |= found
            records[record.resolve()] = after
    return records, tuple(sorted(set(images) - owned))


@dataclass
class _Writes:
    """Files to replace together. Temporary files stand beside their targets and never stay."""

    planned: list[tuple[Path, bytes, str]] = field(default_factory=list)

    def add(self, path: Path, data: bytes, before: str) -> None:
        """Plans new bytes for a file whose bytes have the sha256 `before`."""
        self.planned.append((path, data, before))

    def run(self, stale: Sequence[Path]) -> None:
        """Replaces all files and removes `stale`, or restores every one of them."""
        ready: list[tuple[Path, Path]] = []
        replaced: list[tuple[Path, Path]] = []
        temporary: list[Path] = []
        try:
            for path, data, before in self.planned:
                if hashlib.sha256(path.read_bytes()).hexdigest() != before:
                    raise Refusal(f"{path} was changed by somebody else meanwhile")
                new = _beside(path, temporary)
                new.write_bytes(data)
                _copy_owner_and_mode(path, new)
                ready.append((path, new))
            for path, new in ready:
                old = _beside(path, temporary)
                old.unlink()
                _keep(path, old)
                replaced.append((path, old))
                new.replace(path)
            for path in stale:
                path.unlink()
        except BaseException as error:
            for path, old in reversed(replaced):
                old.replace(path)
            if isinstance(error, OSError):
                where = error.filename or "the tree"
                raise OutsideTrouble(
                    f"{where} cannot be written: {error.strerror}", hint="nothing was changed"
                ) from error
            raise
        finally:
            for path in temporary:
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()


def _beside(path: Path, made: list[Path]) -> Path:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".sm121")
    os.close(handle)
    made.append(Path(name))
    return made[-1]


def _keep(path: Path, old: Path) -> None:
    """Keeps the file under a second name: the same inode where the file system can."""
    try:
        old.hardlink_to(path)
    except OSError:
        shutil.copy2(path, old)


def _copy_owner_and_mode(path: Path, new: Path) -> None:
    status = path.stat()
    made = new.stat()
    if (status.st_uid, status.st_gid) != (made.st_uid, made.st_gid):
        os.chown(new, status.st_uid, status.st_gid)
    new.chmod(status.st_mode & 0o7777)

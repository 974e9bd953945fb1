"""Install a wheel into a layer: PyPA `installer` streams into a LayerWriter.

Formats: the binary distribution format, and "Recording installed projects" (PEP 376, PEP 627).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from pipeline.errors import Refusal
from pipeline.oci.binary import ELF, HEADER, is_host_binary, wrong_machine
from pipeline.oci.layer import LayerWriter
from pipeline.wheels.destination import ImageDestination, record_path, run
from pipeline.wheels.directory import refusal
from pipeline.wheels.known import RECORD_MISMATCH, WRONG_ARCHITECTURE, Known, select
from pipeline.wheels.member import WHOLE, Member
from pipeline.wheels.record import record_bytes
from pipeline.wheels.source import StrictWheel
from pipeline.wheels.target import Target


@dataclass(frozen=True)
class Installed:
    """What was installed. `record` is the image path of RECORD, `files` counts its rows.

    `notes` are lines for a report: what was left out, accepted or shared, each with its reason.
    """

    name: str
    version: str
    filename: str
    record: str
    files: int
    notes: tuple[str, ...] = ()


def check_tags(source: StrictWheel, target: Target) -> None:
    """Refuse a wheel whose file name has no tag of the target. WHEEL's own tags play no part."""
    if source.tags.isdisjoint(target.tags()):
        tags = ", ".join(sorted(map(str, source.tags)))
        major, minor = target.python_version
        glibc = ".".join(map(str, target.glibc))
        raise Refusal(
            f"{source.filename}: tag-does-not-fit: {tags}",
            hint=f"the image has Python {major}.{minor}, {target.machine}, glibc {glibc}: "
            "pin a wheel for it",
        )


class _LayerDestination(ImageDestination):
    """Streams into a layer and collects the rows of RECORD."""

    def __init__(
        self,
        source: StrictWheel,
        target: Target,
        writer: LayerWriter,
        leave_out: Mapping[str, str],
        overrides: Mapping[str, bytes],
        known: Iterable[Known],
    ):
        super().__init__(source, target)
        self.rows: list[tuple[str, str, int]] = []
        self.notes: list[str] = []
        self.unused = set(leave_out) | set(overrides)
        self._writer = writer
        self._leave_out = leave_out
        self._overrides = overrides
        self._known_machines = select(known, WRONG_ARCHITECTURE, source.name)
        self._any = all(tag.platform == "any" for tag in source.tags)

    def take(self, path: str, content: Member | bytes, executable: bool) -> None:
        """Write one file of the image, or say why it is left out."""
        if path in self.unused:
            self.unused.discard(path)
            if isinstance(content, Member):
                content.pass_over()
            if path in self._leave_out:
                self.notes.append(f"/{path} is left out: {self._leave_out[path]}")
                return
            content = self._overrides[path]
        if isinstance(content, bytes):
            self._write(path, content, len(content), executable)
            return
        start = content.peek(HEADER)
        data = content.read() if content.size <= WHOLE else content
        sha256 = self._write(path, data, content.size, executable)
        content.verify(sha256)
        if start.startswith(ELF):
            self._judge_machine(content.path, start, sha256)

    def _write(self, path: str, data: bytes | Member, size: int, executable: bool) -> str:
        there = self._writer.get(path)
        if there is None:
            stream = data if isinstance(data, bytes) else cast("BinaryIO", data)
            sha256 = self._writer.add_file(path, stream, size, 0o755 if executable else 0o644)
        else:
            sha256 = _digest(data)
            if sha256 != there.sha256:
                raise Refusal(f"file-conflict: {self.source.filename}: /{path} is there already")
            self.notes.append(f"/{path} is shared with another distribution of this layer")
        self.rows.append((self.row_path(path), sha256, size))
        return sha256

    def _judge_machine(self, member: str, start: bytes, sha256: str) -> None:
        problem = wrong_machine(start, self.target.machine)
        if not problem:
            if self._any and is_host_binary(start):
                self.notes.append(f"{member} is a host binary in a wheel tagged for any platform")
            return
        known = self._known_machines.get(member)
        if known is None or known.sha256 != sha256:
            raise refusal(self.source.filename, [(member, f"wrong-arch: {problem}")])
        self.notes.append(f"{member} {problem}; known: {known.why}")


def _digest(data: bytes | Member) -> str:
    digest = hashlib.sha256()
    if isinstance(data, bytes):
        digest.update(data)
    else:
        while piece := data.read(WHOLE):
            digest.update(piece)
    return digest.hexdigest()


def install_wheel(
    path: Path,
    filename: str,
    writer: LayerWriter,
    target: Target,
    *,
    known: Collection[Known] = (),
    leave_out: Mapping[str, str] | None = None,
    overrides: Mapping[str, bytes] | None = None,
) -> Installed:
    """Install the wheel at `path`, named `filename` in the lock, into the layer.

    `leave_out` maps image paths that this wheel does not get to the reason, `overrides` maps image
    paths to the bytes that are written instead of the wheel's own; both show in the installed
    RECORD. Raises Refusal for a wheel that does not fit, is damaged, differs from its RECORD, holds
    binaries for another machine, or has no file for one of `leave_out` and `overrides`. The layer
    is worth nothing after that: leave the writer with the error.
    """
    with StrictWheel.open(path, filename, known) as source:
        check_tags(source, target)
        destination = _LayerDestination(
            source, target, writer, leave_out or {}, overrides or {}, known
        )
        run(source, destination)
        if destination.unused:
            raise refusal(filename, [(p, "is no file of it") for p in sorted(destination.unused)])
        record = record_path(source, target)
        data = record_bytes(destination.rows, destination.row_path(record))
        writer.add_file(record, data, len(data))
        accepted = [
            f"{entry.path} differs from the wheel's RECORD; known: {entry.why}"
            for entry in select(known, RECORD_MISMATCH, source.name).values()
        ]
        dropped = [f"{name} is left out: {why}" for name, why in source.left_out.items()]
        return Installed(
            name=source.name,
            version=str(source.parsed_version),
            filename=filename,
            record=record,
            files=len(destination.rows) + 1,
            notes=tuple(sorted([*accepted, *dropped, *destination.notes])),
        )

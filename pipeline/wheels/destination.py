"""Where the files of a wheel go in the image, for PyPA `installer`.

`ImageDestination` knows paths and decides; it is abstract. `plan` lists what an installation would
write, through the same calls, without reading contents.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast

from installer import install
from installer.destinations import WheelDestination
from installer.exceptions import InstallerError
from installer.records import RecordEntry
from installer.scripts import Script
from installer.utils import Scheme

from pipeline.errors import Refusal
from pipeline.wheels.directory import refusal
from pipeline.wheels.member import Member
from pipeline.wheels.source import StrictWheel
from pipeline.wheels.target import Target

INSTALLER = b"sm121-chain\n"
_PYTHON_SHEBANG = b"#!python"


class ImageDestination(WheelDestination):
    """Maps (scheme, path) to image paths without leading slash; subclasses take the files."""

    def __init__(self, source: StrictWheel, target: Target):
        self.source = source
        self.target = target
        self._bases = {
            scheme: base.lstrip("/") for scheme, base in target.scheme(source.distribution).items()
        }
        self._site = target.site_packages.lstrip("/")

    @abstractmethod
    def take(self, path: str, content: Member | bytes, executable: bool) -> None:
        """Take one file of the image. `path` is an image path."""

    def write_script(
        self, name: str, module: str, attr: str, section: Literal["console", "gui"]
    ) -> RecordEntry:
        """Take the launcher of an entry point."""
        script = Script(name, module, attr, section)
        file, data = script.generate(self.target.interpreter, "posix")
        return self._take(Scheme("scripts"), file, data, True)

    def write_file(
        self,
        scheme: Scheme,
        path: str | os.PathLike[str],
        stream: BinaryIO,
        is_executable: bool,
    ) -> RecordEntry:
        """Take one member, or a file that `installer` adds."""
        content = cast("Member", stream) if isinstance(stream, Member) else stream.read()
        if scheme == "scripts":
            # Spec: scripts are executable once installed, whatever the mode in the wheel.
            is_executable = True
            if isinstance(content, Member) and content.peek(8).startswith(_PYTHON_SHEBANG):
                content = self._with_interpreter(content)
        return self._take(scheme, os.fspath(path), content, is_executable)

    def finalize_installation(
        self, scheme: Scheme, record_file_path: str, records: Iterable[tuple[Scheme, RecordEntry]]
    ) -> None:
        """Nothing: the caller writes RECORD, from what it took."""

    def row_path(self, path: str) -> str:
        """Return an image path as RECORD names it: relative to site-packages."""
        if path.startswith(self._site + "/"):
            return path[len(self._site) + 1 :]
        return posixpath.relpath("/" + path, self.target.site_packages)

    def _take(
        self, scheme: Scheme, path: str, content: Member | bytes, executable: bool
    ) -> RecordEntry:
        full = f"{self._bases[scheme]}/{path}"
        self.take(full, content, executable)
        return RecordEntry(full, None, None)

    def _with_interpreter(self, member: Member) -> bytes:
        data = member.read_verified()
        _, _, rest = data.partition(b"\n")
        return b"#!" + self.target.interpreter.encode() + b"\n" + rest


def run(source: StrictWheel, destination: ImageDestination) -> None:
    """Let `installer` install. Raises Refusal for what it cannot take."""
    try:
        install(source, destination, {"INSTALLER": INSTALLER})
    except InstallerError as error:
        raise refusal(
            source.filename, [("", str(error.args[-1]) if error.args else type(error).__name__)]
        ) from error


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that an installation would write.

    `member` is "" for files that are made (launchers, INSTALLER, RECORD). `sha256` is hex; for
    RECORD it is "", its content depends on what is left out.
    """

    member: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Plan:
    """What installing one wheel would write: image path (no leading slash) -> file."""

    name: str
    version: str
    filename: str
    files: Mapping[str, Planned]


class _PlanDestination(ImageDestination):
    def __init__(self, source: StrictWheel, target: Target):
        super().__init__(source, target)
        self.files: dict[str, Planned] = {}

    def take(self, path: str, content: Member | bytes, executable: bool) -> None:
        if path in self.files:
            raise Refusal(f"{self.source.filename}: two of its files would be /{path}")
        if isinstance(content, bytes):
            planned = Planned("", hashlib.sha256(content).hexdigest(), len(content))
        else:
            expected = self.source.expected[content.path]
            sha256 = expected.accepted
            if not sha256 and expected.algorithm == "sha256":
                sha256 = expected.digest
            if sha256:
                content.pass_over()
            else:
                sha256 = hashlib.sha256(content.read_verified()).hexdigest()
            planned = Planned(content.path, sha256, content.size)
        self.files[path] = planned


def plan(source: StrictWheel, target: Target) -> Plan:
    """Return what installing `source` would write, by RECORD's word; contents are not read."""
    destination = _PlanDestination(source, target)
    run(source, destination)
    files = {**destination.files, record_path(source, target): Planned("", "", 0)}
    return Plan(source.name, str(source.parsed_version), source.filename, files)


def record_path(source: StrictWheel, target: Target) -> str:
    """Return the image path of the installed RECORD."""
    return f"{target.site_packages.lstrip('/')}/{source.dist_info_dir}/RECORD"

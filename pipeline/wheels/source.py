"""A strict wheel source for PyPA `installer`.

Formats: the binary distribution format (PEP 427) and APPNOTE.TXT for zip. Everything that the zip
directory and RECORD show is judged when the wheel is opened; the content of a member is judged in
the one pass that installs it. Every fault is a Refusal that names the wheel and the member.
"""

from __future__ import annotations

import configparser
import posixpath
import stat
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from installer.sources import WheelContentElement, WheelSource
from installer.utils import parse_entrypoints
from packaging.utils import (
    InvalidWheelFilename,
    parse_wheel_filename,
)

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.wheels.directory import (
    UNFIT,
    Faults,
    check_directory,
    find_dist_info,
    read_directory,
    refusal,
)
from pipeline.wheels.known import RECORD_MISMATCH, Known, select
from pipeline.wheels.member import Expected, Member, Reader
from pipeline.wheels.record import parse_record

_SIGNATURES = ("RECORD.jws", "RECORD.p7s")  # stand outside RECORD and sign the wheel's own one
_WRITTEN_BY_INSTALLERS = ("INSTALLER", "REQUESTED", "direct_url.json")
_METADATA_FILES = ("WHEEL", "METADATA")
MAX_METADATA = 64 * 1024 * 1024  # bytes; what is read whole: the largest RECORD has 2 MB


class StrictWheel(WheelSource):
    """An open wheel whose directory and RECORD hold together.

    `filename` is the wheel's name in the lock: on disk it may have any name. `left_out` maps
    members that are never installed to the reason. Use `StrictWheel.open`.
    """

    def __init__(
        self, file: BinaryIO, archive: zipfile.ZipFile, filename: str, known: Iterable[Known] = ()
    ):
        """Judge everything but contents. Raises one Refusal with all faults."""
        try:
            name, version, _, self.tags = parse_wheel_filename(filename)
        except InvalidWheelFilename as error:
            raise Refusal(f"{filename}: is no file name of a wheel: {error}") from error
        parts = filename.split("-")
        super().__init__(parts[0], parts[1])
        self.filename = filename
        self.name = name
        self.parsed_version = version
        self._file = Reader(file)
        self._infos = read_directory(filename, archive)
        self._dist_info = find_dist_info(filename, self._infos, name, version)
        self._metadata: dict[str, bytes] = {}
        self.left_out: dict[str, str] = {}
        self._expected: dict[str, Expected] = {}
        self._expected = self._read_record(select(known, RECORD_MISMATCH, name))
        self._read_metadata()
        self._choose()

    @classmethod
    @contextmanager
    def open(cls, path: Path, filename: str, known: Iterable[Known] = ()) -> Iterator[StrictWheel]:
        """Open the wheel at `path`. Raises Refusal for a faulty one, OutsideTrouble for no file."""
        try:
            file = path.open("rb")
        except OSError as error:
            raise OutsideTrouble(f"{filename}: cannot be read: {error}") from error
        with file:
            check_directory(filename, file)
            try:
                archive = zipfile.ZipFile(file)
            # What zipfile raises for a damaged directory, by what the damage hits.
            except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
                raise Refusal(
                    f"{filename}: is no readable zip file: {error}", hint="fetch it again"
                ) from error
            with archive:
                yield cls(file, archive, filename, known)

    @property
    def dist_info_dir(self) -> str:
        """The one dist-info directory, as it is spelled inside the wheel."""
        return self._dist_info

    @property
    def data_dir(self) -> str:
        """The data directory that belongs to it."""
        return self._dist_info.removesuffix(".dist-info") + ".data"

    @property
    def dist_info_filenames(self) -> list[str]:
        """Names of the files below the dist-info directory."""
        prefix = self._dist_info + "/"
        return [name.removeprefix(prefix) for name in self._infos if name.startswith(prefix)]

    @property
    def expected(self) -> Mapping[str, Expected]:
        """What every installable member must hold, by member, in zip order."""
        return self._expected

    def read_dist_info(self, filename: str) -> str:
        """Return a verified file of the dist-info directory as text."""
        member = f"{self._dist_info}/{filename}"
        if member not in self._metadata:
            self._metadata[member] = self.read(member)
        try:
            return self._metadata[member].decode("utf-8")
        except UnicodeDecodeError as error:
            raise refusal(self.filename, [(member, f"is no UTF-8 text: {error}")]) from error

    def read(self, member: str) -> bytes:
        """Return the verified content of one member, whole. Refuses one that is too large."""
        if self._infos[member].file_size > MAX_METADATA:
            raise refusal(self.filename, [(member, "is larger than any such file")])
        with self._member(member) as stream:
            return stream.read_verified()

    def validate_record(self) -> None:
        """Nothing is left to do: names are judged on opening, contents while they are read."""

    def get_contents(self) -> Iterator[WheelContentElement]:
        """Yield every member to install, in zip order.

        The streams are `Member`s: who reads one calls `Member.verify`, or `Member.pass_over` to
        say that its content is not wanted. One that was neither is a fault of the program.
        """
        for name in self._expected:
            if name in self.left_out:
                continue
            with self._member(name) as stream:
                mode = self._infos[name].external_attr >> 16
                executable = stat.S_ISREG(mode) and bool(mode & 0o111)
                yield (name, "", ""), cast("BinaryIO", stream), executable
                if not stream.settled:
                    raise RuntimeError(f"{self.filename}: {name} was installed unverified")

    def _member(self, name: str) -> Member:
        expected = self._expected.get(name) or Expected("", "", self._infos[name].file_size)
        return Member(self._file, self._infos[name], expected, self.filename)

    def _read_record(self, known: Mapping[str, Known]) -> dict[str, Expected]:
        """Match RECORD and directory; returns what members must hold, RECORD itself left out."""
        record = f"{self._dist_info}/RECORD"
        if record not in self._infos:
            raise refusal(self.filename, [(record, "is not there")])
        data = self.read(record)
        faults: Faults = []
        rows = parse_record(data, record, faults)
        expected: dict[str, Expected] = {}
        for name, info in self._infos.items():
            row = rows.pop(name, None)
            if name == record:
                continue
            if row is None:
                if posixpath.dirname(name) == self._dist_info and name.endswith(_SIGNATURES):
                    expected[name] = Expected("", "", info.file_size)
                else:
                    faults.append((name, "is not in RECORD"))
                continue
            accepted = known[name].sha256 if name in known else ""
            if row.size is not None and row.size != info.file_size and not accepted:
                faults.append((name, f"has {info.file_size} bytes, RECORD says {row.size}"))
            expected[name] = Expected(row.algorithm, row.digest, info.file_size, accepted)
        faults.extend((name, "is in RECORD, and not in the wheel") for name in rows)
        faults.extend(
            (name, "is named by a known record-mismatch, and not in the wheel")
            for name in known
            if name not in self._infos
        )
        if faults:
            raise refusal(self.filename, faults)
        return expected

    def _read_metadata(self) -> None:
        faults: Faults = []
        for file in _METADATA_FILES:
            if f"{self._dist_info}/{file}" not in self._infos:
                faults.append((f"{self._dist_info}/{file}", "is not there"))
            else:
                self.read_dist_info(file)
        if f"{self._dist_info}/entry_points.txt" in self._infos:
            text = self.read_dist_info("entry_points.txt")
            try:
                for name, *_ in parse_entrypoints(text):
                    if "/" in name or UNFIT.search(name) or name in ("", ".", ".."):
                        faults.append((f"{self._dist_info}/entry_points.txt", f"script {name!r}"))
            # installer asserts where an entry point does not parse.
            except (configparser.Error, AssertionError, AttributeError) as error:
                faults.append(
                    (
                        f"{self._dist_info}/entry_points.txt",
                        f"unreadable: {error or 'no module:function'}",
                    )
                )
        if faults:
            raise refusal(self.filename, faults)

    def _choose(self) -> None:
        """Fill `left_out`: members that no installation by this program has."""
        faults: Faults = []
        for name in self._expected:
            directory, base = posixpath.split(name)
            if "__pycache__" in directory.split("/"):
                self.left_out[name] = "bytecode: made for one interpreter, and not reproducible"
            elif base.endswith((".pyc", ".pyo")):
                if name[:-1] not in self._infos:
                    faults.append((name, "is bytecode without its source"))
                self.left_out[name] = "bytecode beside its source"
            elif directory == self._dist_info and base in _SIGNATURES:
                self.left_out[name] = "signs the wheel's RECORD, not the installed one"
            elif directory == self._dist_info and base in _WRITTEN_BY_INSTALLERS:
                self.left_out[name] = "is for the installer to write"
        if faults:
            raise refusal(self.filename, faults)

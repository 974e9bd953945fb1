"""What patches are asked about outside of images: an unpacked tree, or a wheel as it is."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from pipeline.errors import OutsideTrouble, Refusal, UsageError
from pipeline.patching.record import recorded_files
from pipeline.wheels.directory import DAMAGE, check_directory

_SITES = (
    "lib/python3*/site-packages",
    "lib64/python3*/site-packages",
    "Lib/site-packages",
    "usr/lib/python3*/site-packages",
    "usr/lib/python3/dist-packages",
    "usr/local/lib/python3*/site-packages",
    "usr/local/lib/python3*/dist-packages",
    "opt/*/lib/python3*/site-packages",
)


@dataclass(frozen=True)
class Source:
    """Where `evaluate` reads from: see there for `read`, `versions`, `python`, `candidates`."""

    name: str
    read: Callable[[str], bytes | None]
    versions: Mapping[str, Version]
    python: str
    candidates: Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Tree:
    """One site-packages directory below `root`, both without links in their paths.

    `metadata` are the dist-info directories by canonical name, `versions` what these say.
    """

    root: Path
    site: Path
    metadata: Mapping[str, Path]
    versions: Mapping[str, Version]
    python: str

    def locate(self, path: str) -> Path | None:
        """The regular file behind a path, links followed, or None.

        Raises Refusal when a link leads out of the root: what lies there is not the tree's.
        """
        real = (self.site / path).resolve()
        if not real.is_relative_to(self.root):
            raise Refusal(f"{path} is a link that leaves {self.root}, to {real}")
        try:
            return real if stat.S_ISREG(real.stat().st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read(self, path: str) -> bytes | None:
        """The bytes of a file, or None. Raises like `locate`, and OutsideTrouble."""
        real = self.locate(path)
        try:
            return real.read_bytes() if real else None
        except OSError as error:
            raise OutsideTrouble(f"{path} cannot be read: {error.strerror}") from error

    def files_of(self, distribution: str) -> list[str]:
        """The files that a distribution's RECORD lists below site-packages."""
        metadata = self.metadata.get(distribution)
        record = metadata / "RECORD" if metadata else None
        if record is None or not record.is_file():
            return []
        return [path for path in recorded_files(record.read_bytes()) if not path.startswith("..")]

    def source(self) -> Source:
        """The tree as `evaluate` reads it."""
        return Source(str(self.site), self.read, self.versions, self.python, self.files_of)


def open_tree(root: Path, distributions: Iterable[str], python: str | None = None) -> Tree:
    """The site-packages below `root` that holds `distributions` (canonical names).

    `root` may be site-packages itself, a virtual environment or the root of an unpacked image.
    `python` is taken from the directory's name or pyvenv.cfg when it is not given.
    Raises UsageError when there is none, several, or no Python version can be told.
    """
    real = root.resolve()
    if not real.is_dir():
        raise UsageError(f"{root}: no such directory")
    paths = [real, *(path for pattern in _SITES for path in sorted(real.glob(pattern)))]
    found = dict.fromkeys(path.resolve() for path in paths)
    sites = {site: _metadata(site) for site in found if site.is_relative_to(real)}
    wanted = set(distributions)
    holding = [site for site, names in sites.items() if wanted & names.keys()]
    if not holding:
        names = ", ".join(sorted(wanted))
        raise UsageError(
            f"{root}: no site-packages in it holds {names}",
            hint="give the site-packages directory itself, with its dist-info directories",
        )
    if len(holding) > 1:
        raise UsageError(
            f"{root}: several site-packages hold what is to be patched",
            hint="give one of them as the root",
            details=[str(site) for site in holding],
        )
    (site,) = holding
    metadata = sites[site]
    versions = {name: version for name, path in metadata.items() if (version := _version(path))}
    return Tree(real, site, metadata, versions, python or _python_of(real, site))


def open_wheel(path: Path, python: str, filename: str = "") -> tuple[Source, str]:
    """A wheel file, read member by member, and its distribution (canonical name).

    `python` is the Python to judge syntax for: most wheels are for several. `filename` is the
    wheel's own name where the file has another one.
    Raises UsageError for another name, Refusal for a file that is no zip archive.
    """
    try:
        name, version, _, _ = parse_wheel_filename(filename or path.name)
        file = path.open("rb")
    except InvalidWheelFilename as error:
        raise UsageError(f"{filename or path.name} is no wheel's file name") from error
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise OutsideTrouble(f"{path} cannot be read: {error.strerror}") from error
    check_directory(filename or path.name, file)
    try:
        archive = zipfile.ZipFile(file)
    except DAMAGE as error:
        raise Refusal(f"{path.name} is damaged: {error}") from error
    # files for site-packages may stand in the wheel's data directory too
    data = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
    members = {data.sub("", member, count=1): member for member in archive.namelist()}

    def read(file: str) -> bytes | None:
        if file not in members:
            return None
        try:
            return archive.read(members[file])
        except DAMAGE as error:
            raise Refusal(f"{path.name} is damaged: {file}: {error}") from error

    files = sorted(members)
    return Source(f"{name} {version}", read, {name: version}, python, lambda _: files), name


def _metadata(site: Path) -> dict[str, Path]:
    """Dist-info directories by canonical name. Raises Refusal for two of one name."""
    found: dict[str, Path] = {}
    for path in sorted(site.glob("*.dist-info")):
        name = canonicalize_name(path.name.removesuffix(".dist-info").rpartition("-")[0])
        if not (path / "METADATA").is_file():
            continue
        if name in found:
            raise Refusal(
                f"{name} is installed twice in {site}", details=[found[name].name, path.name]
            )
        found[name] = path
    return found


def _version(metadata: Path) -> Version | None:
    with (metadata / "METADATA").open("rb") as stream:
        text = BytesHeaderParser().parse(stream).get("Version", "")
    try:
        return Version(str(text))
    except InvalidVersion:
        return None


def _python_of(root: Path, site: Path) -> str:
    for part in reversed(site.parts):
        match = re.fullmatch(r"python(3\.\d+)", part)
        if match:
            return match[1]
    config = root / "pyvenv.cfg"
    if config.is_file():
        text = config.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^version(?:_info)?\s*=\s*(3\.\d+)", text, re.MULTILINE)
        if match:
            return match[1]
    raise UsageError(f"{site}: cannot tell for which Python it is", hint="give it: --python 3.12")

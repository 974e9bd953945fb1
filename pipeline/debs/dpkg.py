"""dpkg's database: what /var/lib/dpkg holds when every package is unpacked and configured.

Scanners and apt read the same files, so they see a Debian of these packages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.debs.archive import ControlFile
from pipeline.debs.nodes import Node
from pipeline.debs.unpack import merged
from pipeline.errors import Refusal

ADMIN = "var/lib/dpkg"

# dpkg keeps these of control.tar elsewhere (in status) or not at all.
_NOT_IN_INFO = frozenset({"control"})
# The order in which dpkg writes the fields of a stanza (lib/dpkg/parse.c, fieldinfos), as far as
# binary packages have them; what it does not know follows in the package's own order.
_FIELDS = (
    "Package",
    "Essential",
    "Protected",
    "Status",
    "Priority",
    "Section",
    "Installed-Size",
    "Origin",
    "Maintainer",
    "Bugs",
    "Architecture",
    "Multi-Arch",
    "Source",
    "Version",
    "Replaces",
    "Provides",
    "Depends",
    "Pre-Depends",
    "Recommends",
    "Suggests",
    "Breaks",
    "Conflicts",
    "Enhances",
    "Conffiles",
    "Description",
)
# dash's postinst claims these for itself; dash's own files are not diverted.
_DIVERSIONS = {
    "dash": (
        ("/usr/share/man/man1/sh.1.gz", "/usr/share/man/man1/sh.distrib.1.gz"),
        ("/bin/sh", "/bin/sh.distrib"),
    )
}


@dataclass(frozen=True)
class Installed:
    """One package as installed.

    `fields` are those of its control file, `files` the other control files, `names` the paths of
    its data in tar order without leading slash, `conffiles` the contents of its conffiles by
    original path without leading slash.
    """

    fields: Mapping[str, str]
    files: Mapping[str, ControlFile]
    names: Sequence[str]
    conffiles: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """The package's name."""
        return self.fields["Package"]

    @property
    def info_name(self) -> str:
        """Start of its file names in info/: with the architecture for Multi-Arch: same."""
        if self.fields.get("Multi-Arch") == "same":
            return f"{self.name}:{self.fields['Architecture']}"
        return self.name


def parse_control(data: bytes) -> dict[str, str]:
    """Return the fields of a control file (deb-control(5)), continuation lines kept as they are.

    Raises Refusal when it is no single paragraph or lacks a field that dpkg needs.
    """
    fields: dict[str, str] = {}
    last = ""
    try:
        lines = data.decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise Refusal("its control file is not UTF-8") from error
    for line in lines:
        key, colon, value = line.partition(":")
        if line[:1] in (" ", "\t") and last:
            fields[last] += "\n" + line
        elif colon and key and not key[0].isspace() and key not in fields:
            last = key
            fields[key] = value.strip()
        else:
            raise Refusal(f"its control file has a line that is no field: {line!r}")
    for key in ("Package", "Version", "Architecture"):
        if not fields.get(key):
            raise Refusal(f"its control file has no field {key}")
    return fields


def conffile_names(files: Mapping[str, ControlFile]) -> list[str]:
    """Return the paths of a package's conffiles, without leading slash (deb-conffiles(5))."""
    if "conffiles" not in files:
        return []
    lines = files["conffiles"].data.decode("utf-8").splitlines()
    # A flag before the path (remove-on-upgrade) says that the file is not in this version.
    return [line.strip().lstrip("/") for line in lines if line.startswith("/")]


def database(packages: Sequence[Installed], architecture: str) -> Iterator[Node]:
    """Yield every file of the database for `packages`, all "install ok installed"."""
    ordered = sorted(packages, key=lambda package: (package.name, package.info_name))
    status = "".join(_stanza(package) + "\n" for package in ordered)
    yield Node.file(f"{ADMIN}/status", status.encode("utf-8"))
    yield Node.file(f"{ADMIN}/arch", f"{architecture}\n".encode())
    yield Node.file(f"{ADMIN}/info/format", b"1\n")
    present = {package.name for package in ordered}
    for package in ordered:
        yield from _info(package)
    diversions = [
        f"{path}\n{distrib}\n{package}\n"
        for package, pairs in _DIVERSIONS.items()
        if package in present
        for path, distrib in pairs
    ]
    yield Node.file(f"{ADMIN}/diversions", "".join(diversions).encode())
    yield from _triggers(ordered)


def _stanza(package: Installed) -> str:
    fields = dict(package.fields)
    fields["Status"] = "install ok installed"
    if package.conffiles:
        fields["Conffiles"] = "".join(
            f"\n /{path} {hashlib.md5(data).hexdigest()}"
            for path, data in package.conffiles.items()
        )
    order = [key for key in _FIELDS if key in fields]
    order += [key for key in fields if key not in _FIELDS]
    return "".join(
        f"{key}:{'' if fields[key].startswith(chr(10)) else ' '}{fields[key]}\n" for key in order
    )


def _info(package: Installed) -> Iterator[Node]:
    start = f"{ADMIN}/info/{package.info_name}"
    listed = ["/."] + ["/" + name for name in package.names if name]
    yield Node.file(f"{start}.list", "".join(f"{line}\n" for line in listed).encode("utf-8"))
    for name, file in package.files.items():
        if name not in _NOT_IN_INFO:
            yield Node.file(f"{start}.{name}", file.data, file.mode)


def _triggers(packages: Sequence[Installed]) -> Iterator[Node]:
    """Yield triggers/: who is interested in which file or name (deb-triggers(5))."""
    by_name: dict[str, list[str]] = {}
    by_file: list[str] = []
    for package in packages:
        if "triggers" not in package.files:
            continue
        for line in package.files["triggers"].data.decode("utf-8").splitlines():
            directive, _, trigger = line.partition("#")[0].strip().partition(" ")
            if not directive.startswith("interest"):
                continue
            wait = "/noawait" if directive == "interest-noawait" else ""
            trigger = trigger.strip()
            if trigger.startswith("/"):
                by_file.append(f"{trigger} {package.info_name}{wait}")
            else:
                by_name.setdefault(trigger, []).append(package.info_name + wait)
    yield Node.file(f"{ADMIN}/triggers/File", "".join(f"{line}\n" for line in by_file).encode())
    yield Node.file(f"{ADMIN}/triggers/Unincorp", b"")
    for trigger, interested in by_name.items():
        lines = "".join(f"{name}\n" for name in interested)
        yield Node.file(f"{ADMIN}/triggers/{trigger}", lines.encode())


def kept_conffiles(files: Mapping[str, ControlFile], kept: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return contents of conffiles by original path; raises Refusal for one that is not there."""
    found = {}
    for name in conffile_names(files):
        if merged(name) not in kept:
            raise Refusal(f"its conffile /{name} is not in it")
        found[name] = kept[merged(name)]
    return found

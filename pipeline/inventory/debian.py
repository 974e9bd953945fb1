"""Debian packages of an image, from dpkg's status files, and the order of their versions.

Formats: dpkg's status(5), deb-control(5); deb-version(7) for the order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from pipeline.oci.tree import Located, Tree
from pipeline.oci.view import ImageView

STATUS = "var/lib/dpkg/status"
_PARTS = "var/lib/dpkg/status.d"  # of images without dpkg, a file a package
_INFO = "var/lib/dpkg/info"
_MAX_STATUS = 64 * 1024 * 1024
_FIELD = re.compile(rb"^(Package|Version|Architecture|Status):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_PIECE = re.compile(r"([^0-9]*)([0-9]*)")
_VERSION = re.compile(r"(?:(?P<epoch>[0-9]+):)?(?P<upstream>.*?)(?:-(?P<revision>[^-]*))?")


class Package(NamedTuple):
    """An installed Debian package. `layer` is the number of the layer that last wrote the files
    list, or the status, where there is none."""

    name: str
    version: str
    architecture: str
    layer: int


def status_files(tree: Tree) -> list[Located]:
    """Return the files that say which packages are installed."""
    found = [tree.resolve(STATUS)]
    found += [one for one in tree.under(_PARTS) if not one.entry.path.endswith(".md5sums")]
    return [one for one in found if one and one.entry.has_content and one.entry.size < _MAX_STATUS]


def read_packages(view: ImageView) -> Mapping[str, Package]:
    """Return the installed packages by name; one of a foreign architecture is "name:arch"."""
    files = status_files(view.tree)
    contents = view.read_many([one.entry.path for one in files])
    found: dict[str, Package] = {}
    for one in files:
        for stanza in re.split(rb"\n[ \t]*\n", contents[one.entry.path].replace(b"\r\n", b"\n")):
            fields = {
                key.decode(): value.decode("utf-8", "backslashreplace")
                for key, value in _FIELD.findall(stanza)
            }
            state = fields.get("Status", "install ok installed").split()
            if (
                not fields.get("Package")
                or not fields.get("Version")
                or state[-1:] != ["installed"]
            ):
                continue
            name, architecture = fields["Package"], fields.get("Architecture", "")
            listed = files_list(view.tree, name, architecture)
            layer = listed.layer if listed is not None else one.layer
            key = f"{name}:{architecture}" if name in found else name
            found[key] = Package(name, fields["Version"], architecture, layer)
    return found


def files_list(tree: Tree, name: str, architecture: str) -> Located | None:
    """Return the file that lists what a package installed."""
    for stem in (name, f"{name}:{architecture}"):
        found = tree.resolve(f"{_INFO}/{stem}.list")
        if found is not None and found.entry.has_content:
            return found
    return None


def read_owners(view: ImageView, packages: Mapping[str, Package]) -> Mapping[str, str]:
    """Return the package of every file that dpkg knows, by path from the image root.

    Links of directories (usr-merge) are followed.
    """
    lists: dict[str, list[str]] = {}
    for key, package in packages.items():
        found = files_list(view.tree, package.name, package.architecture)
        if found is not None and found.entry.size < _MAX_STATUS:
            lists.setdefault(found.entry.path, []).append(key)
    contents = view.read_many(list(lists))
    owners: dict[str, str] = {}
    directories: dict[str, str] = {}
    for path, names in lists.items():
        for line in contents[path].decode("utf-8", "surrogateescape").splitlines():
            parent, _, base = line.lstrip("/").rpartition("/")
            if parent not in directories:
                directories[parent] = view.tree.real_path(parent) or parent
            real = directories[parent]
            owners[f"{real}/{base}" if real else base] = names[0]
    return owners


def compare_versions(one: str, other: str) -> int:
    """Compare two versions as dpkg does: negative, 0 or positive."""
    left, right = _split(one), _split(other)
    if left[0] != right[0]:
        return -1 if left[0] < right[0] else 1
    return _compare(left[1], right[1]) or _compare(left[2], right[2])


@lru_cache(maxsize=4096)
def _split(version: str) -> tuple[int, str, str]:
    match = _VERSION.fullmatch(version)
    if match is None:  # a line end inside
        return 0, version, ""
    # A number that no epoch has is text, however long it is.
    epoch = match["epoch"] or "0"
    return int(epoch[:18]), match["upstream"], match["revision"] or ""


def _compare(one: str, other: str) -> int:
    left, right = _PIECE.findall(one), _PIECE.findall(other)
    for at in range(max(len(left), len(right))):
        a = left[at] if at < len(left) else ("", "")
        b = right[at] if at < len(right) else ("", "")
        by_text = _compare_text(a[0], b[0])
        if by_text:
            return by_text
        x, y = a[1].lstrip("0"), b[1].lstrip("0")
        if (len(x), x) != (len(y), y):
            return -1 if (len(x), x) < (len(y), y) else 1
    return 0


def _compare_text(one: str, other: str) -> int:
    """Compare what is no digit: "~" before the end, letters before anything else."""
    left, right = [_weight(char) for char in one] + [0], [_weight(char) for char in other] + [0]
    return (left > right) - (left < right)


def _weight(char: str) -> int:
    if char == "~":
        return -1
    return ord(char) if char.isascii() and char.isalpha() else ord(char) + 256

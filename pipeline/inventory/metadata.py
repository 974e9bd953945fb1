"""Parse the files of a dist-info directory: METADATA, RECORD, direct_url.json.

Formats: core metadata specification; "Recording installed projects" (PEP 376, PEP 627); direct URL
data (PEP 610). Only what identifies a distribution must be right; the rest is taken as it is.
"""

from __future__ import annotations

import binascii
import csv
import io
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from pipeline.documents import parse_json

_MAX_TEXT = 255  # characters: longer ones fit no file name
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)  # PEP 508 "Names"


class Unreadable(ValueError):
    """A metadata file does not hold what its specification asks for; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """Identity and requirements of a distribution, spelled as in its METADATA."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


class RecordRow(NamedTuple):
    """One row of a RECORD. `path` as written; `digest` in hex; "" and -1 stand for not given."""

    path: str
    algorithm: str = ""
    digest: str = ""
    size: int = -1


Record = tuple[RecordRow, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a distribution came from when it was no index (PEP 610).

    `kind` is "editable", "directory", "archive" or "vcs". `url` has no credentials. `sha256` is an
    archive's, in hex, if known; `commit` is "git, commit <id>", or the like, of a repository.
    """

    kind: str
    url: str
    sha256: str = ""
    commit: str = ""

    @property
    def directory(self) -> str:
        """The local directory below the image root, "" for anything else."""
        parts = urlsplit(self.url)
        local = self.kind in ("editable", "directory") and parts.scheme == "file"
        return unquote(parts.path).strip("/") if local else ""

    def __str__(self) -> str:
        if self.kind == "vcs":
            return f"{self.commit}, from {self.url}"
        if self.kind == "archive":
            return f"archive with sha256 {self.sha256 or 'unknown'}, from {self.url}"
        return f"{self.kind}, {self.directory or self.url}"


def parse_metadata(data: bytes) -> Metadata:
    """Read the headers of METADATA or PKG-INFO; the description below them is not looked at.

    Raises Unreadable without exactly one usable Name and Version.
    """
    values: dict[str, list[str]] = {"name": [], "version": [], "requires-dist": []}
    header = data.replace(b"\r\n", b"\n").split(b"\n\n", 1)[0].decode("utf-8", "backslashreplace")
    last: list[str] | None = None
    for line in header.split("\n"):
        if line[:1] in (" ", "\t"):  # a folded header goes on
            if last is not None:
                last[-1] += " " + line.strip()
            continue
        key, _, value = line.partition(":")
        last = values.get(key.lower())
        if last is not None:
            last.append(value.strip())
    name, version = _the_one("Name", values["name"]), _the_one("Version", values["version"])
    if not _NAME.fullmatch(name):
        raise Unreadable(f"its Name {name!r} is no name of a distribution")
    if max(len(name), len(version)) > _MAX_TEXT:
        raise Unreadable(f"its Name and Version have more than {_MAX_TEXT} characters")
    return Metadata(name, version, tuple(values["requires-dist"]))


def _the_one(header: str, values: list[str]) -> str:
    given = set(filter(None, values))
    if len(given) != 1:
        raise Unreadable(f"it has {'no' if not given else 'more than one'} {header}")
    return given.pop()


def parse_record(data: bytes, known: Mapping[str, RecordRow] | None = None) -> Record:
    """Read a RECORD. Raises Unreadable for anything that is no three-column CSV.

    `known` are rows by their lines (see `rows_by_line`): those of the same RECORD before a stage
    changed some of them.
    """
    try:
        text = data.decode("utf-8")
        if known:
            with suppress(csv.Error):  # a row of several lines
                return tuple([known.get(line) or _rows([line])[0] for line in _lines(text)])
        return tuple(_rows(io.StringIO(text, newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise Unreadable(f"no readable CSV: {error}") from error


def rows_by_line(data: bytes, record: Record) -> dict[str, RecordRow]:
    """Return the rows of a RECORD by their lines; {} where a row stands on several."""
    lines = _lines(data.decode("utf-8"))
    return dict(zip(lines, record, strict=True)) if len(lines) == len(record) else {}


def _lines(text: str) -> list[str]:
    """Return the lines that are not empty, as `csv` sees them."""
    return [line for line in text.replace("\r", "\n").split("\n") if line]


def _rows(lines: Iterable[str]) -> list[RecordRow]:
    return [_row(fields) for fields in csv.reader(lines, strict=True) if fields]


def _row(fields: list[str]) -> RecordRow:
    if len(fields) != 3 or not fields[0] or "\0" in fields[0]:
        raise Unreadable(f"no row of path, hash and size: {','.join(fields)!r}")
    path, signature, size = fields
    algorithm, _, encoded = signature.partition("=")
    try:
        digest = _hex(encoded) if signature else ""
        return RecordRow(path, algorithm, digest, int(size) if size else -1)
    except ValueError as error:  # binascii.Error is one
        raise Unreadable(f"row of {path!r}: {error}") from error


def _hex(encoded: str) -> str:
    """Return an unpadded URL-safe base64 digest in hex. Raises ValueError when it is none."""
    digest = binascii.a2b_base64(encoded.replace("-", "+").replace("_", "/") + "==").hex()
    if not digest:  # base64 of nothing, or of nothing but foreign characters
        raise ValueError(f"no digest: {encoded!r}")
    return digest


def parse_direct_url(data: bytes) -> Origin:
    """Read a direct_url.json. Raises Unreadable when it is none."""
    try:
        document: dict[str, Any] = parse_json(data)
        url = _without_credentials(document["url"])
        if "vcs_info" in document:
            vcs = document["vcs_info"]
            return Origin("vcs", url, commit=f"{vcs['vcs']}, commit {vcs['commit_id']}")
        if "archive_info" in document:
            return Origin("archive", url, sha256=_archive_sha256(document["archive_info"]))
        kind = "editable" if document["dir_info"].get("editable") else "directory"
        return Origin(kind, url)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"no direct URL data (PEP 610): {error!r}") from error


def _archive_sha256(info: dict[str, Any]) -> str:
    hashes = info.get("hashes") or {}
    algorithm, _, value = str(info.get("hash", "")).partition("=")  # the older spelling
    return str(hashes.get("sha256") or (value if algorithm == "sha256" else ""))


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

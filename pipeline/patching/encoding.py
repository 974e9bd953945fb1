"""Which bytes an anchor is in a given file. Files are never decoded to be edited.

A file's encoding matters only for text beyond ASCII: ASCII anchors are the same bytes in every
encoding accepted here, so they work on files that no codec can read. The locale plays no part.
"""

from __future__ import annotations

import codecs
import re
import string
from dataclasses import dataclass
from pathlib import PurePosixPath

PYTHON_SUFFIXES = frozenset({".py", ".pyi"})

BOM = codecs.BOM_UTF8

# PEP 263: in line 1 or 2, and in line 2 only when line 1 is a comment or blank
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")


class EncodingFault(Exception):
    """A text cannot stand in a file; says why in one line."""


class NotText(Exception):
    """The bytes are no text that this program edits; says why in one line."""


@dataclass(frozen=True)
class Encoding:
    """How text goes into one file. `name` is for messages; `problem` is why beyond-ASCII fails."""

    name: str
    codec: str
    problem: str = ""

    def encode(self, text: str) -> bytes:
        """The bytes of `text` in this file. Raises EncodingFault when there are none."""
        if text.isascii():
            return text.encode("ascii")
        if self.problem:
            raise EncodingFault(f"{self.problem}: only ASCII text can be edited in it")
        try:
            return text.encode(self.codec)
        except UnicodeEncodeError as error:
            letter = text[error.start]
            raise EncodingFault(f"{letter!r} cannot be written in {self.name}") from error


def detect(path: str, data: bytes) -> Encoding:
    """The encoding of a file, from its bytes and its suffix (only Python has cookies, PEP 263).

    Raises NotText for files with NUL bytes (binaries, UTF-16), and EncodingFault when not even
    ASCII text stands for itself in the declared encoding (UTF-7, EBCDIC).
    """
    nul = data.find(b"\0")
    if nul >= 0:
        raise NotText(f"holds a NUL byte at offset {nul}")
    codec, name = "utf-8", "UTF-8"
    if PurePosixPath(path).suffix in PYTHON_SUFFIXES:
        cookie = _cookie(data)
        if cookie and not data.startswith(BOM):
            try:
                info = codecs.lookup(cookie)
                printable = string.printable.encode("ascii").decode(info.name)
            except (LookupError, UnicodeError, ValueError):
                return Encoding(cookie, "ascii", f"its declared encoding {cookie!r} is not known")
            if printable != string.printable:
                raise EncodingFault(f"its declared encoding {cookie!r} does not extend ASCII")
            codec, name = info.name, cookie
    try:
        data.decode(codec)
    except UnicodeDecodeError as error:
        return Encoding(name, codec, f"it is not {name} (byte {error.start})")
    return Encoding(name, codec)


def to_utf8(path: str, data: bytes) -> bytes | None:
    """The same text in UTF-8 without a byte order mark, or None when it does not decode."""
    try:
        encoding = detect(path, data)
    except (NotText, EncodingFault):
        return None
    if encoding.problem:
        return None
    return data.decode(encoding.codec).removeprefix("\ufeff").encode("utf-8")


def _cookie(data: bytes) -> str | None:
    for line in re.split(rb"\r\n|\r|\n", data[:4096].removeprefix(BOM))[:2]:
        match = _COOKIE.match(line)
        if match:
            return match[1].decode("ascii")
        if not _BLANK.match(line):
            return None
    return None

"""RECORD: the table of a distribution's files with hashes and sizes, read and written.

Format: "Recording installed projects" (PEP 376, PEP 627), and PEP 427 for the hashes of a wheel.
"""

from __future__ import annotations

import base64
import binascii
import csv
import io
import re
from collections.abc import Iterable
from typing import NamedTuple

from pipeline.wheels.directory import Faults

_SIZE = re.compile(r"[0-9]{0,18}")
_HASHES = ("sha256", "sha384", "sha512")  # PEP 427: sha256 or better


class Row(NamedTuple):
    """A row of RECORD: name of the hash, its value in hex, size in bytes (None if not given)."""

    algorithm: str
    digest: str
    size: int | None


def parse_record(data: bytes, record: str, faults: Faults) -> dict[str, Row]:
    """Return the rows of a wheel's RECORD by path; what is wrong with them goes to `faults`.

    `record` is RECORD's own path: its row has no hash.
    """
    rows: dict[str, Row] = {}
    try:
        lines = list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        faults.append((record, f"is unreadable: {error}"))
        return rows
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        if len(line) != 3:
            faults.append((record, f"line {number} has {len(line)} columns, not 3"))
            continue
        path, digest, size = line
        row = _row(digest, size)
        if row is None and path != record:
            faults.append((path, f"has hash {digest!r} and size {size!r} in RECORD"))
        elif path in rows:
            faults.append((path, "is in RECORD twice"))
        else:
            rows[path] = row or Row("", "", None)
    return rows


def _row(digest: str, size: str) -> Row | None:
    algorithm, _, value = digest.partition("=")
    if algorithm not in _HASHES or not _SIZE.fullmatch(size):
        return None
    value = value.rstrip("=")
    try:
        raw = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(raw) * 8 != int(algorithm.removeprefix("sha")):
        return None
    return Row(algorithm, raw.hex(), int(size) if size else None)


def record_bytes(rows: Iterable[tuple[str, str, int]], own: str) -> bytes:
    """Return RECORD for rows of (path, hex sha256, size), sorted; `own` is its row for itself.

    Order is by code point. The hash column is the URL-safe base64 without padding of PEP 376.
    """
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    lines = [(path, f"sha256={_base64(sha256)}", str(size)) for path, sha256, size in rows]
    table.writerows(sorted([*lines, (own, "", "")]))
    return text.getvalue().encode("utf-8")


def _base64(sha256: str) -> str:
    return base64.urlsafe_b64encode(bytes.fromhex(sha256)).decode("ascii").rstrip("=")

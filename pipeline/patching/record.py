"""Rewrites the rows of an installed distribution's RECORD that a patch makes untrue.

Format: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from collections.abc import Collection, Mapping

from pipeline.errors import Refusal


def rewrite_record(
    record: bytes, changed: Mapping[str, bytes], removed: Collection[str] = ()
) -> tuple[bytes, frozenset[str]]:
    """The RECORD with new hashes and sizes for `changed`, without `removed`; and the rows found.

    Paths are relative to site-packages. Every other row stays byte for byte.
    Raises Refusal when the RECORD cannot be read.
    """
    lines: list[bytes] = []
    found: set[str] = set()
    # A quoted row may name any of them.
    wanted = [b'"', *(re.escape(path.encode("utf-8")) for path in (*changed, *removed))]
    may_name = re.compile(b"|".join(wanted)).search
    for number, line in enumerate(record.splitlines(keepends=True), 1):
        if not may_name(line):
            lines.append(line)
            continue
        try:
            row = next(csv.reader([line.decode("utf-8")]), [])
        except (UnicodeDecodeError, csv.Error) as error:
            raise Refusal(f"RECORD line {number} cannot be read: {error}") from error
        path = row[0] if row else ""
        if path in removed:
            continue
        if path in changed:
            found.add(path)
            end = line[len(line.rstrip(b"\r\n")) :]
            line = _row(path, changed[path]) + end
        lines.append(line)
    return b"".join(lines), frozenset(found)


def recorded_files(record: bytes) -> list[str]:
    """The paths that a RECORD lists; rows that cannot be read are left out."""
    text = record.decode("utf-8", "replace")
    return [row[0] for row in csv.reader(text.splitlines()) if row]


def _row(path: str, data: bytes) -> bytes:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([path, f"sha256={digest}", len(data)])
    return out.getvalue().encode("utf-8")

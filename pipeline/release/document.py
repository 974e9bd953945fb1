"""JSON that decides something: read so that it can mean one thing only.

RFC 8259 leaves open what two equal keys and half of a surrogate pair mean, and has no NaN; Python's
parser takes all three. Here none is JSON, and a number that does not fit is none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pipeline.documents import Malformed
from pipeline.errors import Fault, FaultyFile
from pipeline.lock.table import Table

_T = TypeVar("_T")

MOST_BYTES = 8 * 1024 * 1024
_MOST_DEPTH = 64


def parse_strict(data: bytes) -> Any:
    """Return a JSON value of at most 8 MiB and 64 levels. Raises Malformed."""
    if len(data) > MOST_BYTES:
        raise Malformed(f"more than {MOST_BYTES} bytes")
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
        )
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise Malformed("not JSON: nested too deeply") from error
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(f"not JSON: {error}") from error
    _check_depth(value)
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise Malformed("not JSON that means one thing: half of a surrogate pair") from error
    return value


def read_document(
    data: bytes, name: str, read: Callable[[Table], _T], *, hint: str | None = None
) -> _T:
    """Return what `read` makes of a JSON object. Raises FaultyFile with every fault that it found.

    `name` is the file, for people.
    """
    faults: list[Fault] = []
    try:
        document = parse_strict(data)
    except Malformed as error:
        raise FaultyFile(name, [Fault("", str(error))]) from error
    if not isinstance(document, Mapping):
        raise FaultyFile(name, [Fault("", "is no JSON object")])
    found = read(Table(document, "", faults))
    if faults:
        raise FaultyFile(name, faults, hint=hint)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Malformed(f"not JSON that means one thing: {key[:80]!r} stands twice")
        found[key] = value
    return found


def _constant(text: str) -> Any:
    raise Malformed(f"not JSON: {text} is no number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Malformed(f"not JSON that means one thing: {text[:40]} is no finite number")
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise Malformed("not JSON: nested too deeply")

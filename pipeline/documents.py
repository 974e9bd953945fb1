"""Parse TOML and JSON that others wrote: whatever is in it, it is a value or one error.

The parsers of the standard library also raise RecursionError for deep nesting, and a plain
ValueError for a number of more than 4,300 digits.
"""

from __future__ import annotations

import json
import tomllib
from typing import Any


class Malformed(ValueError):
    """The text is none of its kind; says what is wrong, with a place where one is known."""


def parse_toml(data: bytes) -> dict[str, Any]:
    """Return a TOML document. Raises Malformed."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise Malformed("not TOML: nested too deeply") from error
    except ValueError as error:
        raise Malformed(f"not TOML: {error}") from error


def parse_json(data: bytes) -> Any:
    """Return a JSON value. Raises Malformed."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise Malformed("not JSON: nested too deeply") from error
    except ValueError as error:  # UnicodeDecodeError is one
        raise Malformed(f"not JSON: {error}") from error

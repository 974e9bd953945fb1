"""TOML files of ours: every way in which one cannot be read, as one fault with its place."""

from __future__ import annotations

import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from pipeline.errors import Fault, FaultyFile

_PLACE = re.compile(
    r"^(?P<problem>.*) \(at (?P<where>line \d+, column \d+|end of document)\)$", re.S
)


def parse_file(path: Path) -> dict[str, Any]:
    """Parse a file. CRLF reads as LF, so a checkout's line ends change nothing.

    Raises:
        OSError: it is not there or cannot be read.
        FaultyFile: no plain file, not UTF-8 or not TOML; the fault's path is the line and column.
    """
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for, for ever
        raise FaultyFile(str(path), [Fault("", "is no file")])
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        fault = Fault(f"byte {error.start}", "not UTF-8")
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.match(str(error))
        where, problem = (place["where"], place["problem"]) if place else ("", str(error))
        fault = Fault(where, f"not TOML: {problem}")
    except ValueError:  # int() takes 4300 digits
        fault = Fault("", "not TOML: a number has too many digits")
    except RecursionError:
        fault = Fault("", "not TOML: arrays or tables are nested too deeply")
    raise FaultyFile(str(path), [fault]) from None

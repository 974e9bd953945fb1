"""A plain file from a plain URL, through the user's proxies and certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import requests

from pipeline.errors import OutsideTrouble

_CHUNK = 1 << 20
_TIMEOUT = (15, 30)  # seconds to connect, and between two reads
_TRIES = 2


class Vanished(Exception):
    """The server says that the file is not there (404 or 410)."""


def stream(
    url: str, target: Path, *, moved: Callable[[int], None], check: Callable[[], None]
) -> None:
    """Write what `url` serves to `target`, in constant memory; one more try when it breaks off.

    `moved` is called with the number of bytes as they come, and a negative one when they are given
    up; `check` at every chunk, and what it raises ends the transfer. Raises Vanished if the server
    says that there is no such file, OutsideTrouble if it cannot be had for another reason.
    """
    for left in reversed(range(_TRIES)):
        count = 0
        try:
            with requests.get(url, stream=True, timeout=_TIMEOUT) as response:
                if response.status_code in (404, 410):
                    raise Vanished(url)
                response.raise_for_status()
                with target.open("wb") as file:
                    for chunk in response.iter_content(_CHUNK):
                        check()
                        file.write(chunk)
                        moved(len(chunk))
                        count += len(chunk)
                announced = response.headers.get("Content-Length", "")
                plain = "Content-Encoding" not in response.headers
                if plain and announced.isdigit() and int(announced) != count:
                    raise requests.ConnectionError(f"broke off after {count} of {announced} bytes")
            return
        except (requests.RequestException, OSError) as error:
            moved(-count)
            if not left or not isinstance(error, requests.RequestException):
                raise OutsideTrouble(f"{url} cannot be fetched: {reason(error)}") from error


def reason(error: Exception) -> str:
    """The innermost cause of a failed request in one line, without the libraries' wrapping."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return str(cause).splitlines()[0] if str(cause) else type(cause).__name__

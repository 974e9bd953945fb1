"""A short command whose output is wanted: within a time, and no more of it than fits in memory."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

MOST_OUTPUT = 64 * 1024 * 1024  # the inspection of a thousand images has a few MiB
_MOMENT = 1.0
NOT_INSTALLED, OUT_OF_TIME, TOO_MUCH = 127, 124, 125


def capture(
    command: Sequence[str], environment: Mapping[str, str] | None, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a command without stdin; what keeps it from a status of its own is one of the three.

    The reason is then the whole of its stderr.
    """

    def ended(status: int, why: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(list(command), status, "", why)

    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )
    except FileNotFoundError:
        return ended(NOT_INSTALLED, "not installed")
    except OSError as error:
        return ended(NOT_INSTALLED, f"cannot be started: {error.strerror}")
    assert process.stdout and process.stderr
    said: dict[IO[bytes], bytes] = {}

    def collect(stream: IO[bytes]) -> None:
        data = stream.read(MOST_OUTPUT + 1)
        said[stream] = data
        if len(data) > MOST_OUTPUT:
            process.kill()

    streams = (process.stdout, process.stderr)
    threads = [threading.Thread(target=collect, args=(one,), daemon=True) for one in streams]
    for thread in threads:
        thread.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return ended(OUT_OF_TIME, f"no answer within {seconds:.0f} s")
    finally:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
    for thread in threads:
        thread.join(_MOMENT)  # a grandchild may hold the pipes for ever
    for stream in said:
        stream.close()
    if any(len(data) > MOST_OUTPUT for data in said.values()):
        return ended(TOO_MUCH, f"more than {MOST_OUTPUT} bytes of output")
    out, err = (said.get(one, b"").decode("utf-8", "replace") for one in streams)
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)

"""A session with a Dagger engine: its CLI as a child, as long as the work needs it.

`dagger session` prints one line of JSON with a port and a token once it is connected, serves there
until its stdin is closed, and tells on stderr what goes wrong. The library takes both from the
environment, as it does under `dagger run`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import IO, TextIO

from pipeline.engines.reach import PORT, TOKEN, Engine
from pipeline.errors import NoEngine

#: Seconds in which an engine that runs must have taken us in.
CONNECT_SECONDS = 9.0
#: The same where an engine may have to be fetched and started first.
START_SECONDS = 600.0
# To say goodbye in; with an engine that is gone the CLI would wait for longer than people do.
_CLOSE_SECONDS, _FAULT_SECONDS = 15.0, 3.0
# They keep the CLI off the network: nobody is told of a build, and nothing is looked up.
_QUIET = {
    "DO_NOT_TRACK": "1",
    "DAGGER_NO_UPDATE_CHECK": "1",
    "DAGGER_NO_NAG": "1",
    "OTEL_SDK_DISABLED": "true",
}
_KEPT_LINES = 200


class Session:
    """An open session. `alive` turns False when its process has ended.

    Whoever finds that its engine is gone sets `gone`: then nobody waits for a goodbye.
    """

    def __init__(self, process: subprocess.Popen[bytes] | None, said: deque[str]):
        self._process = process
        self._said = said
        self.gone = False

    @property
    def alive(self) -> bool:
        """Whether the session's process runs; one that was given is not ours to watch."""
        return self._process is None or self._process.poll() is None

    def last_words(self) -> str:
        """Return what the CLI said that most likely tells what went wrong, "" if nothing."""
        return _telling(self._said)


@contextlib.contextmanager
def open_session(engine: Engine, log: TextIO | None) -> Iterator[Session]:
    """Connect, and keep the session open; the engine's log goes to `log`, if that is given.

    Raises NoEngine when the engine does not take us in.
    """
    said: deque[str] = deque(maxlen=_KEPT_LINES)
    if not engine.cli:
        yield Session(None, said)
        return
    command = [engine.cli, "session", *(("--progress=plain",) if log else ("--silent",))]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **{k: v for k, v in _QUIET.items() if k not in os.environ}},
            start_new_session=True,  # Ctrl-C is ours to handle: it ends the session in order
        )
    except OSError as error:
        raise NoEngine(f"{engine.cli}: {error.strerror}", hint="see what it is") from error
    assert process.stdin and process.stdout and process.stderr
    reader = threading.Thread(target=_drain, args=(process.stderr, said, log), daemon=True)
    reader.start()
    patience = _FAULT_SECONDS
    try:
        port, token = _connected(process, process.stdout, reader, said, engine)
        with _environment({PORT: port, TOKEN: token}):
            session = Session(process, said)
            yield session
        if not session.gone:
            patience = _CLOSE_SECONDS
    finally:
        _close(process, process.stdin, patience)
        reader.join(timeout=1)


def _connected(
    process: subprocess.Popen[bytes],
    stdout: IO[bytes],
    reader: threading.Thread,
    said: deque[str],
    engine: Engine,
) -> tuple[str, str]:
    limit = CONNECT_SECONDS if engine.runs else START_SECONDS
    line = _first_line(stdout, limit)
    if line is None:
        raise NoEngine(
            f"{engine.where} took the connection, and gave no session in {limit:.0f} s",
            hint="see that it is a Dagger engine of version 0.21, and what its log says",
        )
    try:
        document = json.loads(line)
        return str(int(document["port"])), str(document["session_token"])
    except (ValueError, KeyError, TypeError):
        process.stdout = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2)
        reader.join(timeout=1)
        words = _telling(said) or line.decode(errors="replace").strip() or "it ended at once"
        raise NoEngine(
            f"no session with {engine.where}: {words}",
            hint="this needs a Dagger engine and CLI of version 0.21; `doctor` tells what is here",
        ) from None


def _first_line(stdout: IO[bytes], seconds: float) -> bytes | None:
    """Read up to a line's end or the stream's; None when neither came in time."""
    line, end = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, end - time.monotonic())):
                return None
            block = os.read(stdout.fileno(), 65536)
            if not block:
                break
            line += block
    return line


def _drain(stderr: IO[bytes], said: deque[str], log: TextIO | None) -> None:
    for raw in stderr:
        line = raw.decode("utf-8", "replace")
        said.append(line.rstrip())
        if log is not None:
            with contextlib.suppress(OSError, ValueError):
                log.write(line)


def _telling(said: deque[str]) -> str:
    lines = [line.strip() for line in said if line.strip()]
    for line in reversed(lines):
        if "rror" in line:
            return line.removeprefix("Error: ")
    return lines[-1] if lines else ""


def _close(process: subprocess.Popen[bytes], stdin: IO[bytes], patience: float) -> None:
    """End the CLI by closing its stdin, so that it can say goodbye to the engine."""
    with contextlib.suppress(OSError):
        stdin.close()
    try:
        process.wait(timeout=patience)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

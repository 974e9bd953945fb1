"""A program in a container with the GPUs, on a host: started, listened to, and removed again.

Nothing of this machine is mounted: what runs comes through stdin, so hosts over ssh and remote
daemons are no other case. The root is read-only, there is no network, and the container is gone
when `run_container` returns, whatever happened.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pipeline.hosts.runtime import Runtime

INSIDE = Path(__file__).with_name("inside.py")
MOST_OUTPUT = 8 * 1024 * 1024
_LONGEST_LINE = 2000
_LAST = 3  # lines that are kept for a report
# What it takes a runtime to start and to end a container, on top of the program's own time.
_GRACE = 60
_TICK = 0.05
_MOMENT = 10  # longer than what runs inside takes to end


@dataclass(frozen=True)
class Task:
    """What runs in a container of `image`: run.py of the zip archive `files`, with `arguments`.

    `seconds` is its time limit. `network` is the runtime's word for one ("none", "host").
    """

    image: str
    files: bytes
    arguments: Sequence[str]
    seconds: float
    network: str = "none"


@dataclass
class Outcome:
    """How it ended: exit status, all of stdout, or why there is no result; the last it told."""

    status: int | None = None
    stdout: bytes = b""
    problem: str = ""
    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST))
    is_full: threading.Event = field(default_factory=threading.Event)

    @property
    def said(self) -> str:
        """The last lines of stderr, as one."""
        return " / ".join(self.last)


def container_command(task: Task, name: str, runtime: Runtime) -> list[str]:
    """Return the runtime's command line."""
    options = {
        "--name": name,
        "--label": "dev.sm121-chain.smoke=true",
        "--gpus": "all",
        "--pull": "never",
        "--network": task.network,
        # The JIT's libraries are loaded from there.
        "--tmpfs": "/tmp:rw,exec,nosuid,nodev",
        "--cap-drop": "ALL",
        "--security-opt": "no-new-privileges",
        "--workdir": "/tmp",
        "--entrypoint": "python3",
    }
    words = [runtime.program, "run", "--rm", "--interactive", "--read-only"]
    words += [f"{key}={value}" for key, value in options.items()]
    words += ["--env=HOME=/tmp", "--env=TMPDIR=/tmp", "--env=PYTHONDONTWRITEBYTECODE=1"]
    source = INSIDE.read_text(encoding="utf-8")
    return [*words, task.image, "-c", source, str(task.seconds), *task.arguments]


def run_container(
    runtime: Runtime, task: Task, tell: Callable[[str], None], stop: threading.Event
) -> Outcome:
    """Run a task; `tell` gets each line of its stderr, `stop` ends it before its time.

    Raises nothing: what goes wrong is the outcome's problem.
    """
    name = f"sm121-smoke-{secrets.token_hex(6)}"
    command = container_command(task, name, runtime)
    try:
        return listen(lambda: runtime.start(command), task.files, task.seconds, tell, stop)
    finally:
        # With --rm it is gone already when it ended by itself; asking again costs nothing.
        runtime.remove(name)


def pull_image(
    runtime: Runtime, name: str, tell: Callable[[str], None], stop: threading.Event
) -> None:
    """Bring an image by name, however long that takes. Raises OutsideTrouble."""
    command = [runtime.program, "pull", "--quiet", name]
    outcome = listen(lambda: runtime.start(command), b"", None, tell, stop)
    if outcome.status:
        raise runtime.trouble(f"does not pull {name}: {outcome.said}")


def listen(
    start: Callable[[], subprocess.Popen[bytes]],
    files: bytes,
    seconds: float | None,
    tell: Callable[[str], None],
    stop: threading.Event,
) -> Outcome:
    """Start a program, send it `files` as inside.py reads them, and listen until it ends.

    It is ended when it takes longer than `seconds` and some more, when it says too much, on `stop`,
    and when this is interrupted.
    """
    outcome = Outcome()
    try:
        process = start()
    except OSError as error:
        outcome.problem = f"cannot be started: {error.strerror}"
        return outcome
    assert process.stdin and process.stdout and process.stderr
    sender = threading.Thread(target=_send, args=(process.stdin, files), daemon=True)
    threads = [
        threading.Thread(target=_collect, args=(process.stdout, outcome), daemon=True),
        threading.Thread(target=_lines, args=(process.stderr, outcome, tell), daemon=True),
        sender,
    ]
    for thread in threads:
        thread.start()
    end = None if seconds is None else time.monotonic() + seconds + _GRACE
    try:
        while process.poll() is None and not outcome.problem:
            if stop.wait(_TICK):
                outcome.problem = "interrupted"
            elif end is not None and time.monotonic() > end:
                outcome.problem = f"timed out: no end after {seconds:.0f} s and {_GRACE} s"
            elif outcome.is_full.is_set():
                outcome.problem = f"more than {MOST_OUTPUT} bytes of output"
    finally:
        _end(process, sender)
    for thread in threads:
        # A grandchild may hold the pipes for ever; what it says is not waited for.
        thread.join(_MOMENT)
    if not outcome.problem:
        outcome.status = process.returncode
    return outcome


def _end(process: subprocess.Popen[bytes], sender: threading.Thread) -> None:
    """End a program: by the end of its stdin, which also reaches what it started; then by force."""
    assert process.stdin
    if not sender.is_alive():
        with contextlib.suppress(OSError):  # what was not sent
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_MOMENT)
    process.kill()
    process.wait()


def _send(stream: IO[bytes], files: bytes) -> None:
    """Send the archive, and leave stdin open: it is closed when this program ends."""
    try:
        stream.write(b"%d\n" % len(files) + files)
        stream.flush()
    except (OSError, ValueError):
        pass  # the program has ended; its status tells


def _collect(stream: IO[bytes], outcome: Outcome) -> None:
    parts: list[bytes] = []
    size = 0
    while block := stream.read1(1 << 16):  # type: ignore[attr-defined]
        size += len(block)
        if size > MOST_OUTPUT:
            outcome.is_full.set()
            return
        parts.append(block)
    outcome.stdout = b"".join(parts)


def _lines(stream: IO[bytes], outcome: Outcome, tell: Callable[[str], None]) -> None:
    while line := stream.readline(_LONGEST_LINE):
        text = line.decode("utf-8", "replace").rstrip()
        clean = "".join(one if one.isprintable() else " " for one in text)
        if clean:
            outcome.last.append(clean)
            tell(clean)

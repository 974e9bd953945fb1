"""The container runtime of a host: docker, podman or nerdctl, here or over ssh."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from typing import BinaryIO, cast

from pipeline.documents import parse_json
from pipeline.errors import OutsideTrouble, UsageError
from pipeline.hosts.captured import capture
from pipeline.hosts.inspection import Inspected, read_inspection

HERE = "here"
DAEMON = "ssh://"
RUNTIMES = ("docker", "podman", "nerdctl")
_SECONDS = 60
_LONGEST = 500
_NAME = r"[\w.:%+\[\]][\w.:%+\[\]-]*"
_HOST = re.compile(rf"({DAEMON})?({_NAME}@)?{_NAME}/?", re.ASCII)
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15")


class Runtime:
    """A runtime that answers. `host` is a name that ssh knows, "here", or ssh://[USER@]HOST[:PORT].

    The last one is for this machine's docker or podman with a daemon there (DOCKER_HOST).
    """

    def __init__(self, host: str, program: str):
        self.host, self.program = host, program

    @classmethod
    def on(cls, host: str, program: str = "") -> Runtime:
        """Find the runtime of a host, or take the one that is named.

        Raises UsageError for what is no host, OutsideTrouble when none answers there.
        """
        check_host(host)
        reasons = []
        for name in [program] if program else RUNTIMES:
            done = _run(host, [name, "version"])
            if done.returncode == 0:
                return cls(host, name)
            if _is_reached_by_ssh(host) and done.returncode == 255:
                raise OutsideTrouble(
                    f"{host} cannot be reached: {_last(done.stderr)}", hint=f"try: ssh {host} true"
                )
            reasons.append(f"{name}: {_last(done.stderr) or 'does not answer'}")
        raise OutsideTrouble(
            f"no container runtime answers on {_place(host)}",
            details=reasons,
            hint="start one there, or name it with --runtime",
        )

    def images(self) -> list[Inspected]:
        """Return every image that the runtime has."""
        listed = self._ask("images", "--quiet", "--no-trunc")
        ids = sorted(set(listed.split()))
        return self.inspect(*ids) if ids else []

    def inspect(self, *names: str) -> list[Inspected]:
        """Return images by name. Raises OutsideTrouble when one is not there."""
        text = self._ask("image", "inspect", *names)
        try:
            found = [read_inspection(one, self.host) for one in parse_json(text.encode())]
            if not found:
                raise ValueError("no image, and no error either")
            return found
        except (ValueError, AttributeError, TypeError) as error:
            raise OutsideTrouble(
                f"{self.program} on {_place(self.host)} shows its images in an unknown form",
                hint="name another runtime with --runtime",
            ) from error

    def has(self, name: str) -> bool:
        """Return whether the runtime shows an image of that name."""
        return _run(self.host, [self.program, "image", "inspect", name]).returncode == 0

    def lacks(self, name: str) -> OutsideTrouble:
        """Return the error for an image that is not there."""
        return OutsideTrouble(
            f"no image on {_place(self.host)} has the content of {name}",
            hint=f"bring it there: load STAGE --host {self.host}",
        )

    def load(self, write: Callable[[BinaryIO], None]) -> None:
        """Load the archive that `write` writes to a stream."""
        command = _command(self.host, [self.program, "load"])
        process = subprocess.Popen(
            command, env=_environment(self.host),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert process.stdin is not None
        try:
            with process.stdin as stream:
                write(cast(BinaryIO, stream))
        except BrokenPipeError:
            pass  # what it has to say comes below
        except BaseException:
            # An archive that is cut off must not look like one that has ended.
            process.kill()
            process.wait()
            raise
        output = process.stdout.read() if process.stdout else b""
        if process.wait():
            raise OutsideTrouble(
                f"{self.program} on {_place(self.host)} does not load it:"
                f" {_last(output.decode(errors='replace'))}",
                hint="look at its disk space and its log",
            )

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command of this runtime with pipes; a signal to this program does not reach it.

        Raises OSError.
        """
        return subprocess.Popen(
            _command(self.host, command),
            env=_environment(self.host),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def remove(self, container: str) -> None:
        """Remove a container, whether it runs, has ended or is not there."""
        _run(self.host, [self.program, "rm", "--force", container])

    def trouble(self, what: str) -> OutsideTrouble:
        """Return the error for something that the runtime does not do."""
        return OutsideTrouble(
            f"{self.program} on {_place(self.host)} {what}",
            hint="log in there, or bring the image with `load`",
        )

    def _ask(self, *args: str) -> str:
        done = _run(self.host, [self.program, *args])
        if done.returncode:
            raise OutsideTrouble(
                f"{self.program} {args[0]} on {_place(self.host)}: {_last(done.stderr)}",
                hint="the image may not be there under that name",
            )
        return done.stdout


def check_host(host: str) -> None:
    """Raise UsageError for what is no host.

    A name ends up in command lines, also in those of the user's ssh configuration (%h, %r): one
    that could be an option or hold a shell's signs is none.
    """
    if not _HOST.fullmatch(host):
        raise UsageError(
            f"{host!r} is no host",
            hint=f"a host is a name for ssh, ssh://[USER@]HOST[:PORT], or {HERE!r}",
        )


def _place(host: str) -> str:
    return "this machine" if host == HERE else host


def _is_reached_by_ssh(host: str) -> bool:
    return host != HERE and not host.startswith(DAEMON)


def _command(host: str, command: Sequence[str]) -> list[str]:
    return [*_SSH, host, shlex.join(command)] if _is_reached_by_ssh(host) else list(command)


def _environment(host: str) -> dict[str, str] | None:
    """Return the environment of a command: ours, with the daemon where that is elsewhere."""
    if not host.startswith(DAEMON):
        return None
    return {**os.environ, "DOCKER_HOST": host, "CONTAINER_HOST": host}


def _run(host: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return capture(_command(host, command), _environment(host), _SECONDS)


def _last(text: str) -> str:
    """Return the last line, as it may be shown on a terminal."""
    lines = text.strip().splitlines()
    last = lines[-1][:_LONGEST] if lines else ""
    return "".join(one if one.isprintable() else " " for one in last).strip()

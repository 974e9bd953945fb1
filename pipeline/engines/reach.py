"""Which Dagger engine this environment names, and whether anybody is there.

Asked before the CLI is started: with nobody behind a socket it tries for ten minutes in silence.
Variables are those of Dagger: a session that `dagger run` gives (`DAGGER_SESSION_PORT`, `_TOKEN`),
the address of an engine (`_EXPERIMENTAL_DAGGER_RUNNER_HOST`), the CLI
(`_EXPERIMENTAL_DAGGER_CLI_BIN`). Without an address the CLI starts an engine of its own in a
container runtime of this machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pipeline.errors import NoEngine

PORT, TOKEN = "DAGGER_SESSION_PORT", "DAGGER_SESSION_TOKEN"
HOST = "_EXPERIMENTAL_DAGGER_RUNNER_HOST"
CLI = "_EXPERIMENTAL_DAGGER_CLI_BIN"
#: Seconds that anything may take to answer that it is there.
PATIENCE = 5.0
#: Container runtimes, in the order in which the CLI looks for one to start an engine in.
RUNTIMES = ("docker", "podman", "nerdctl", "finch")
_START = f"start it, or set {HOST} to an engine that runs (unix://, tcp://, ssh://, kube-pod://…)"


@dataclass(frozen=True)
class Engine:
    """An engine that could be used. `cli` is "" where a session is given."""

    where: str
    cli: str = ""
    #: False where connecting may have to start an engine first, which takes its time.
    runs: bool = True


def named(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a session or an engine: what `--engine auto` goes by."""
    return bool(environment.get(PORT) or environment.get(HOST))


def find_engine(environment: Mapping[str, str]) -> Engine:
    """Return the engine that the environment names, once something answers there.

    Raises NoEngine, within a few seconds, with what to set or start.
    """
    if environment.get(PORT):
        return _session(environment)
    cli = _cli(environment)
    where = environment.get(HOST, "")
    if not where:
        return Engine(f"an engine in {_runtime()}", cli, runs=False)
    url = urlsplit(where)
    kind = url.scheme.partition("+")[0]  # image+podman://…
    if kind not in _PROBES:
        raise NoEngine(
            f"{HOST}={where}: no such kind of address",
            hint=f"kinds are {', '.join(f'{scheme}://' for scheme in sorted(_PROBES))}",
        )
    _PROBES[kind](url)
    return Engine(where, cli, runs=kind not in _STARTS)


def answers(environment: Mapping[str, str]) -> bool:
    """Whether an engine that was found before is still there, as far as a socket can tell."""
    url = urlsplit(environment.get(HOST, ""))
    if environment.get(PORT) or url.scheme not in ("unix", "tcp"):
        return True
    try:
        _PROBES[url.scheme](url)
    except NoEngine:
        return False
    return True


def _session(environment: Mapping[str, str]) -> Engine:
    port = environment[PORT]
    if not environment.get(TOKEN):
        raise NoEngine(
            f"{PORT} is set, and {TOKEN} is not", hint="`dagger run` sets both; unset the other"
        )
    try:
        address = ("127.0.0.1", int(port))
        with socket.create_connection(address, PATIENCE):
            return Engine(f"the session at port {port}")
    except (OSError, ValueError, OverflowError) as error:
        raise NoEngine(
            f"no Dagger session at port {port}: {_said(error)}",
            hint=f"start this under `dagger run`, or unset {PORT}",
        ) from error


def _cli(environment: Mapping[str, str]) -> str:
    """Return the path of the CLI. It is never downloaded: what runs here is what people chose."""
    given = environment.get(CLI, "")
    found = given or shutil.which("dagger", path=environment.get("PATH")) or _downloaded()
    if found and Path(found).is_file() and os.access(found, os.X_OK):
        return found
    hint = f"install Dagger's CLI (0.21), or set {CLI} to its path"
    if given:
        raise NoEngine(f"{CLI}={given}: that is no program", hint=hint)
    raise NoEngine("Dagger's CLI is not here", hint=hint)


def _downloaded() -> str:
    """Return the CLI that Dagger's own library has fetched before, "" if it has not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "dagger")
    found = sorted(cache.glob("dagger-0.21.*"))
    return str(found[-1]) if found else ""


def _runtime() -> str:
    """Return the first container runtime that answers."""
    refused: NoEngine | None = None
    for name in RUNTIMES:
        if shutil.which(name):
            try:
                _ask([name, "info"], f"{name} does not answer, and no engine is named", _START)
                return name
            except NoEngine as error:
                refused = refused or error
    raise refused or NoEngine(
        "no Dagger engine is named, and no container runtime is here", hint=_START
    )


def _ask(command: list[str], message: str, hint: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise NoEngine(f"{message}: no answer in {PATIENCE:.0f} s", hint=hint) from None
    except OSError as error:
        raise NoEngine(f"{message}: {_said(error)}", hint=hint) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoEngine(f"{message}: {said[-1] if said else 'it failed'}", hint=hint)


def _unix(url: SplitResult) -> None:
    path = url.path or url.netloc
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as probe:
        probe.settimeout(PATIENCE)
        try:
            probe.connect(path)
        except OSError as error:
            raise NoEngine(
                f"no Dagger engine listens on {path}: {_said(error)}", hint=_START
            ) from error


def _tcp(url: SplitResult) -> None:
    try:
        if url.hostname is None or url.port is None:
            raise ValueError("tcp://HOST:PORT is needed")
        with socket.create_connection((url.hostname, url.port), PATIENCE):
            pass
    except (OSError, ValueError) as error:
        raise NoEngine(
            f"no Dagger engine at {url.geturl()}: {_said(error)}", hint=_START
        ) from error


def _ssh(url: SplitResult) -> None:
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={PATIENCE:.0f}"]
    if url.port:
        options += ["-p", str(url.port)]
    user = f"{url.username}@" if url.username else ""
    _ask(
        ["ssh", *options, f"{user}{url.hostname or ''}", "true"],
        f"{url.geturl()} cannot be reached",
        "`ssh` must get there without a question: keys, known_hosts",
    )


def _kubernetes(url: SplitResult) -> None:
    _ask(
        ["kubectl", "version", f"--request-timeout={PATIENCE:.0f}s"],
        f"{url.geturl()} cannot be reached",
        "`kubectl` must get there: KUBECONFIG, the context, the namespace",
    )


def _container(url: SplitResult) -> None:
    _runtime()


_PROBES: dict[str, Callable[[SplitResult], None]] = {
    "unix": _unix,
    "tcp": _tcp,
    "tls": _tcp,
    "ssh": _ssh,
    "kube-pod": _kubernetes,
    "container": _container,
    "docker-container": _container,
    "image": _container,
    "docker-image": _container,
}
_STARTS = ("image", "docker-image")


def _said(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or "no answer"

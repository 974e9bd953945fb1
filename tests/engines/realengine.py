"""A real Dagger engine for tests: one that the environment names, or one started here.

Started from installed programs (see docs/dagger.md, "An engine without Docker"): `dagger`,
`dagger-engine`, `dagger-init`, `dnsname`, `runc`, `dnsmasq`, iptables and the CNI plugins. It runs
in namespaces of its own, without any network, and all that it changes is undone with them.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.engines.reach import CLI, HOST

_PROGRAMS = ("dagger", "dagger-engine", "dagger-init", "dnsname", "runc", "dnsmasq", "unshare")
_PLUGINS = ("bridge", "firewall", "host-local", "loopback")
_CNI = (Path("/opt/cni/bin"), Path("/usr/lib/cni"), Path("/usr/libexec/cni"))
# Collection goes by how full the disk is, whoever filled it: a test would not find what it made.
_VERSION = "_EXPERIMENTAL_DAGGER_VERSION"  # Dagger's own, for its tests
_SETTINGS = {"gc": {"enabled": False}}
_SCRIPT = """
set -e
ip link set lo up
mount -t tmpfs tmpfs "$PLACE/over"
for d in usr/bin usr/local/bin opt etc; do
    mkdir -p "$PLACE/over/upper/$d" "$PLACE/over/work/$d" "$PLACE/add/$d"
    mount -t overlay overlay "/$d" -o "lowerdir=$PLACE/add/$d:/$d" \
        -o "upperdir=$PLACE/over/upper/$d,workdir=$PLACE/over/work/$d"
done
mount -t tmpfs tmpfs /run
exec "$ENGINE" --config /dev/null --root "$PLACE/state" --addr "unix://$PLACE/engine.sock"
"""


def missing() -> str:
    """Why no engine can be started here, "" if one can."""
    if os.geteuid() != 0:
        return "starting a Dagger engine needs root"
    lacking = [name for name in _PROGRAMS if _which(name) is None]
    lacking += [f"CNI plugin {name}" for name in _PLUGINS if _plugin(name) is None]
    lacking += [] if _xtables() else ["xtables-nft-multi"]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


def _which(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _plugin(name: str) -> Path | None:
    return next((place / name for place in _CNI if (place / name).exists()), None)


def _xtables() -> list[Path]:
    found = [Path("/usr/sbin", f"xtables-{kind}-multi") for kind in ("legacy", "nft")]
    return [path for path in found if path.exists()]


@dataclass
class RealEngine:
    """An engine of the test's own. Its state stays in `place` when it is stopped."""

    place: Path
    process: subprocess.Popen[bytes] | None = None
    #: Size of a tmpfs that its state lies in, such as "300m"; "" for a directory.
    limit: str = ""
    #: What it says that its version is; "" for the truth.
    version: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """What names this engine."""
        return {HOST: f"unix://{self.place}/engine.sock", CLI: str(_which("dagger"))}

    def start(self) -> None:
        """Start it and wait until it answers."""
        add = self.place / "add"
        for name in ("over", "state", "add/etc/dagger", "add/opt/cni/bin"):
            (self.place / name).mkdir(parents=True, exist_ok=True)
        for name, target in (("runc", "runc"), ("dagger-init", "dagger-init")):
            _install(str(_which(name)), add / "usr/local/bin" / target)
        for path in _xtables():
            _install(str(path), add / "usr/bin" / path.name)
        for name in _PLUGINS:
            _install(str(_plugin(name)), add / "opt/cni/bin" / name)
        _install(str(_which("dnsname")), add / "opt/cni/bin/dnsname")
        (add / "etc/dagger/engine.json").write_text(json.dumps(_SETTINGS), encoding="utf-8")
        script = _SCRIPT
        if self.limit:
            script = script.replace(
                "exec ", f'mount -t tmpfs -o size={self.limit} t "$PLACE/state"\nexec '
            )
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--net", "--propagation", "private", "sh", "-c", script],
            env={
                **os.environ,
                "PLACE": str(self.place),
                "ENGINE": str(_which("dagger-engine")),
                **({_VERSION: self.version} if self.version else {}),
            },
            stdout=(self.place / "log").open("ab"),
            stderr=subprocess.STDOUT,
        )
        end = time.monotonic() + 60
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.place / "log").read_text(encoding="utf-8")[-3000:])
            time.sleep(0.1)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.place / "engine.sock")) == 0

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it, or kill it (SIGKILL); what it keeps stays."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


def _install(source: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(source, target)


@contextmanager
def started(place: Path, *, limit: str = "", version: str = "") -> Iterator[RealEngine]:
    """Start an engine with its state in `place`."""
    engine = RealEngine(place, limit=limit, version=version)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop(signal.SIGKILL)

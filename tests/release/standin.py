"""A stand-in for a container runtime, and for the probes: they do as a test says, also wrong.

`docker` is a program on PATH that writes down what it is called with and runs the container's
program as a plain process here, so what starts the probes inside is the real one. It knows the
images of a layout, and "pulls" by a name with their digest. `containers/` holds a file for each
container that was not removed. `smoke/run.py` prints the driver's sample document.

`behave` says, by host ("here" for this machine), what goes wrong. Keys of the runtime: `version`,
`pull`, `inspect` ("other", "nothing", "gone"), `shows` (what `image inspect`
prints), `run` (an exit status before anything ran). Keys of
`probes`: see RUN.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.release import documents

DOCKER = r'''#!PYTHON
import json, os, signal, subprocess, sys
from pathlib import Path

HERE = Path("FOLDER")
host = os.environ.get("STANDIN_HOST", "here")
if os.environ.get("DOCKER_HOST", "").startswith("ssh://"):
    host = os.environ["DOCKER_HOST"]
file = HERE / "behave.json"
mine = json.loads(file.read_text()).get(host, {}) if file.exists() else {}
words = sys.argv[1:]
with (HERE / "calls").open("a") as calls:
    calls.write(json.dumps([host, Path(sys.argv[0]).name, *words]) + "\n")


def fail(text, status=1):
    print(text, file=sys.stderr)
    sys.exit(status)


def images():
    """Every image of the layouts, as `docker image inspect` shows it."""
    found = {}
    for index in [Path(one) for one in (HERE / "layouts").read_text().split()]:
        if not (index / "index.json").exists():
            continue
        blobs = index / "blobs" / "sha256"
        for one in json.loads((index / "index.json").read_text())["manifests"]:
            digest = one["digest"]
            manifest = json.loads((blobs / digest[7:]).read_text())
            config = json.loads((blobs / manifest["config"]["digest"][7:]).read_text())
            shown = config.get("config") or {}
            if mine.get("inspect") == "other":
                shown = {**shown, "Env": ["OTHER=1"]}
            document = {
                "Id": manifest["config"]["digest"],
                "Os": config["os"],
                "Architecture": config["architecture"],
                "Config": shown,
                "RootFS": {"Layers": config["rootfs"]["diff_ids"]},
            }
            if mine.get("inspect") == "nothing":
                document = {"Id": "<none>", "RootFS": {}}
            found[digest] = document
    return found


pulled = HERE / "pulled" / host.replace("/", "_")
pulled.mkdir(parents=True, exist_ok=True)
containers = HERE / "containers"
containers.mkdir(exist_ok=True)
if words == ["version"]:
    sys.exit(mine.get("version", 0))
elif words[0] == "pull":
    if mine.get("pull"):
        fail(mine["pull"])
    (pulled / words[-1].rpartition(":")[2]).touch()
elif words[:2] == ["image", "inspect"]:
    digest = words[2].partition("@")[2]
    known = images()
    by_id = {image["Id"]: image for image in known.values()}
    here = digest in known and (pulled / digest[7:]).exists()
    if mine.get("inspect") == "gone" or not (here or words[2] in by_id):
        fail("Error: No such image: " + words[2])
    print(mine.get("shows") or json.dumps([known.get(digest) or by_id[words[2]]]))
elif words[0] == "images":
    loaded = (HERE / "loaded").exists()
    print("\n".join(i["Id"] for i in images().values()) if loaded else "")
elif words[0] == "rm":
    file = containers / words[-1]
    if not file.exists():
        fail("Error: No such container: " + words[-1])
    try:
        os.killpg(int(file.read_text()), signal.SIGKILL)
    except ProcessLookupError:
        pass
    file.unlink(missing_ok=True)
elif words[0] == "run":
    if mine.get("run"):
        fail("docker: could not select device driver with capabilities: [[gpu]].", mine["run"])
    name = next(word for word in words if word.startswith("--name=")).partition("=")[2]
    code = words[words.index("-c") :]
    environment = {**os.environ, "STANDIN_PROBES": json.dumps(mine.get("probes", {}))}
    environment["STANDIN_MACHINE"] = host
    child = subprocess.Popen([sys.executable, *code], env=environment, start_new_session=True)
    (containers / name).write_text(str(child.pid))
    status = child.wait()
    (containers / name).unlink(missing_ok=True)  # --rm
    sys.exit(status if status >= 0 else 128 - status)
else:
    fail("docker: unknown command " + words[0])
'''

SSH = r"""#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
STANDIN_HOST="$1"; export STANDIN_HOST
[ "$1" = away ] && { echo "ssh: connect to host away: No route to host" >&2; exit 255; }
shift; exec sh -c "$1"
"""

# What run.py does: `set` changes values of the sample document by path, `say` replaces all of it,
# `cut` keeps so many bytes, `hang` sleeps, `status` is the exit status, `flood` bytes of output.
RUN = r"""
import json, os, subprocess, sys, time
how = json.loads(os.environ.get("STANDIN_PROBES", "{}"))
print("probing \x1b[31m" + " ".join(sys.argv[1:]), file=sys.stderr, flush=True)
document = json.loads(SAMPLE)
asked = sys.argv[sys.argv.index("--require") + 1].split(",")
document["probes"] = [one for one in document["probes"] if one["probe"] in asked]
document["started"] = int(time.time())
document["finished"] = int(time.time())
document["environment"]["boot_id"] = os.environ.get("STANDIN_MACHINE", "here")
document["environment"]["gpus"] = []
for path, value in how.get("set", {}).items():
    *way, last = path.split(".")
    place = document
    for key in way:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(last) if isinstance(place, list) else last] = value
if "pids" in how:
    helper = subprocess.Popen(["sleep", "300"])
    with open(how["pids"], "w") as file:
        file.write(f"{os.getpid()} {helper.pid}")
time.sleep(how.get("hang", 0))
if "flood" in how:
    block = "x" * 65536
    for _ in range(how["flood"] // 65536):
        print(block)
text = how.get("say", json.dumps(document) + "\n")
sys.stdout.write(text[: how.get("cut", len(text))])
sys.exit(how.get("status", 0))
"""


@dataclass(frozen=True)
class StandIn:
    """The runtime of a test."""

    folder: Path

    def behave(self, **hosts: dict[str, Any]) -> None:
        """Say what goes wrong on which hosts; all others do well."""
        (self.folder / "behave.json").write_text(json.dumps(hosts), encoding="utf-8")

    def calls(self, word: str = "") -> list[list[str]]:
        """What the runtime was called with: host, program, words; those whose first is `word`."""
        file = self.folder / "calls"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [call for call in map(json.loads, lines) if not word or call[2] == word]

    def forget(self) -> None:
        """Forget all calls."""
        (self.folder / "calls").unlink(missing_ok=True)

    @property
    def left(self) -> list[str]:
        """Containers that were not removed."""
        folder = self.folder / "containers"
        return sorted(one.name for one in folder.iterdir()) if folder.exists() else []

    @property
    def path(self) -> str:
        """PATH with the stand-ins first."""
        return f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def make_standin(folder: Path, project: Path, *layouts: Path) -> StandIn:
    """Write the programs into `folder` and the probes into the project."""
    (folder / "bin").mkdir(parents=True)
    text = DOCKER.replace("PYTHON", sys.executable, 1).replace("FOLDER", str(folder))
    for name, content in (("docker", text), ("podman", text), ("ssh", SSH)):
        (folder / "bin" / name).write_text(content, encoding="utf-8")
        (folder / "bin" / name).chmod(0o755)
    (folder / "layouts").write_text("\n".join(map(str, layouts)), encoding="utf-8")
    (project / "smoke").mkdir()
    run = RUN.replace("SAMPLE", repr(json.dumps(documents.run())))
    (project / "smoke" / "run.py").write_text(run, encoding="utf-8")
    return StandIn(folder)


def use(standin: StandIn, patch: pytest.MonkeyPatch) -> None:
    """Put the stand-ins on PATH."""
    patch.setenv("PATH", standin.path)
    patch.delenv("DOCKER_HOST", raising=False)

"""What the chain costs on a Dagger engine, beside the local engine and bare transfers, in one run.

    nox -s bench_dagger          a table on stderr, JSON on stdout

It needs an engine (see `doctor`), a filled wheelhouse (`nox -s fetch`), and 20 GB of room here and
on the engine each. The engine's cache is not emptied: an epoch of its own makes every layer new,
and a client that the engine has not seen sends all of its files.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.chain import ROOT, edit_v1
from bench.measure import Measured, run
from pipeline.engines.reach import find_engine
from pipeline.engines.session import open_session
from pipeline.engines.unused import TOOLBOX
from pipeline.plan import make_plan
from pipeline.project import Project
from pipeline.wheels.house import Wheelhouse, default_cache

_COLD, _WARM, _EDIT = 1.3, 3.0, 5.0


def main(args: Sequence[str] = ()) -> int:
    """Measure, print, and return 0: a missed figure is for a reader to judge, not for a status."""
    if args and args[0] == "transfer":
        print(json.dumps(transfer(Path(args[1]), Path(args[2]))))
        return 0
    if args and args[0] == "execs":
        print(json.dumps(empty_execs(Path(args[1]), int(args[2]))))
        return 0
    find_engine(os.environ)
    project, house = Project(ROOT), Wheelhouse(default_cache())
    plan = make_plan(project.lock, project.chain, project.patches, base="wheels")
    files = {file.sha256 for step in plan.steps.values() for file in step.files}
    if missing := [sha256 for sha256 in files if not house.path(sha256).exists()]:
        raise SystemExit(f"{len(missing)} files are not in {house.cache}: run `nox -s fetch`")
    with tempfile.TemporaryDirectory(prefix="bench-", dir=house.cache) as scratch:
        figures = _measure(house, files, Path(scratch))
    json.dump(figures, sys.stdout, indent=1)
    print()
    _table(figures)
    return 0


def transfer(files: Path, out: Path) -> dict[str, float]:
    """Send a directory to the engine and bring it back; seconds of each."""
    import dagger

    async def both() -> dict[str, float]:
        async with dagger.Connection() as client:
            began = time.monotonic()
            there = await client.host().directory(str(files.absolute())).sync()
            sent = time.monotonic()
            await there.export(str(out.absolute()))
            return {"up": sent - began, "down": time.monotonic() - sent}

    with open_session(find_engine(os.environ), None):
        return asyncio.run(both())


def empty_execs(toolbox: Path, number: int) -> dict[str, float]:
    """Run a chain of execs that do nothing, each with what the one before left; seconds of all."""
    import dagger

    async def chain() -> dict[str, float]:
        async with dagger.Connection() as client:
            box = await client.container().import_(client.host().file(str(toolbox))).sync()
            left, began = client.directory(), time.monotonic()
            for step in range(number):
                done = await (
                    box.with_mounted_directory("/job/in", left)
                    .with_mounted_directory("/job/out", client.directory())
                    .with_exec(["true", f"{time.time_ns()}", f"{step}"])
                    .sync()
                )
                left = await done.directory("/job/out").sync()
            return {"seconds": time.monotonic() - began}

    with open_session(find_engine(os.environ), None):
        return asyncio.run(chain())


def _measure(house: Wheelhouse, files: set[str], scratch: Path) -> dict[str, Any]:
    work = scratch / "project"
    for name in ("stages", "patches"):
        shutil.copytree(ROOT / name, work / name)
    epoch = int(time.time())
    for name in ("pins.toml", "pins.toolbox.toml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (work / name).write_text(re.sub(r"(?m)^epoch = \d+", f"epoch = {epoch}", text))
    # With bytecode, as wherever a program is used twice; the shell of a bench may forbid it.
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}

    def client(name: str) -> dict[str, str]:
        """The environment of a client that no engine has seen, with a filled wheelhouse."""
        store = scratch / name / "files" / "sha256"
        if not store.is_dir():
            store.mkdir(parents=True)
            for path in (house.cache / "files" / "sha256").iterdir():
                os.link(path, store / path.name)
        places = {"SM121_CHAIN_CACHE": scratch / name, "XDG_STATE_HOME": scratch / name / "state"}
        return {"PYTHONPATH": str(ROOT), **bytecode, **{k: str(v) for k, v in places.items()}}

    def program(name: str, *args: str) -> Measured:
        return run([sys.executable, "-m", "pipeline", *args], cwd=work, env=client(name))

    def build(name: str, engine: str) -> Measured:
        out = str(scratch / name / "dist")
        return program(name, "build", "--engine", engine, "--offline", "--out", out)

    def bare(name: str, *args: str) -> Any:
        command = [sys.executable, "-m", "bench.dagger", *args]
        return json.loads(run(command, cwd=ROOT, env=client(name)).stdout)

    for name in ("local", "first"):
        for line in ((), ("--line", "toolbox")):
            program(name, "fetch", *line, "--offline", "-q")
    local = build("local", "local")
    connect = program("first", "doctor")
    sent = scratch / "sent"
    sent.mkdir()
    for sha256 in files:
        os.link(house.path(sha256), sent / sha256)
    moved = {}
    for name, place in (("files", sent), ("layers", scratch / "local/dist/blobs/sha256")):
        out = scratch / f"back-{name}"
        moved[name] = bare(f"bare-{name}", "transfer", str(place), str(out))
        shutil.rmtree(out)
    cold, warm = build("first", "dagger"), build("first", "dagger")
    for held in ("dist", "steps"):
        shutil.rmtree(scratch / "first" / held)
    other = build("first", "dagger")
    same = local.stdout == cold.stdout == warm.stdout == other.stdout
    edit_v1(work)
    edited, edited_local = build("first", "dagger"), build("local", "local")
    ran = re.findall(r"\] (\S+)  [\d.]+ s", edited.stderr)
    toolbox = next((scratch / "first" / TOOLBOX).glob("*.tar"))
    execs = bare("first", "execs", str(toolbox), str(len(ran)))
    transfers = moved["files"]["up"] + moved["layers"]["down"]
    return {
        "cores": os.cpu_count(),
        "local_seconds": local.wall,
        "connect_seconds": connect.wall,
        "upload_seconds": moved["files"]["up"],
        "export_seconds": moved["layers"]["down"],
        "cold_seconds": cold.wall,
        "cold_limit_seconds": local.wall + _COLD * transfers,
        "warm_seconds": warm.wall,
        "warm_limit_seconds": connect.wall + _WARM,
        "other_client_seconds": other.wall,
        "edit_seconds": edited.wall,
        "edit_limit_seconds": _EDIT,
        "edit_local_seconds": edited_local.wall,
        "empty_execs_seconds": execs["seconds"],
        "client_cpu_seconds": {
            "local": local.cpu,
            "cold": cold.cpu,
            "warm": warm.cpu,
            "other": other.cpu,
            "edit": edited.cpu,
        },
        "client_peak_bytes": max(cold.peak, warm.peak, edited.peak),
        "lines_equal": same and edited.stdout == edited_local.stdout,
        "edit_steps_run": ran,
    }


def _table(figures: dict[str, Any]) -> None:
    rows = [
        ("local engine", "local", ""),
        ("connecting (doctor)", "connect", ""),
        ("upload of the wheelhouse", "upload", ""),
        ("export of the layers", "export", ""),
        ("dagger, cold", "cold", "cold_limit"),
        ("dagger, warm", "warm", "warm_limit"),
        ("dagger, a client that lost its cache", "other_client", ""),
        ("dagger, an edit in v1", "edit", "edit_limit"),
        ("local, the same edit", "edit_local", ""),
        ("as many empty execs in a row", "empty_execs", ""),
    ]
    for name, key, limit in rows:
        most = f"at most {figures[f'{limit}_seconds']:.1f} s" if limit else ""
        print(f"{name:30} {figures[f'{key}_seconds']:8.1f} s  {most}", file=sys.stderr)
    print(f"equal lines: {figures['lines_equal']}", file=sys.stderr)
    print(f"client's peak: {figures['client_peak_bytes'] / 2**20:.0f} MiB", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

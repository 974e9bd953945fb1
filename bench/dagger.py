"""What the chain costs on a Dagger engine, beside the local engine and bare transfers, in one run.

    nox -s bench_dagger          a table on stderr, JSON on stdout

It needs an engine (see `doctor`), a filled wheelhouse (`nox -s fetch`), and 15 GB of room here and
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
from pipeline.plan import make_plan
from pipeline.project import Project
from pipeline.wheels.house import Wheelhouse, default_cache

_COLD, _WARM, _EDIT = 1.3, 3.0, 5.0


def main(args: Sequence[str] = ()) -> int:
    """Measure, print, and return 0: a missed figure is for a reader to judge, not for a status."""
    if args and args[0] == "transfer":
        print(json.dumps(transfer(Path(args[1]), Path(args[2]))))
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


def _measure(house: Wheelhouse, files: set[str], scratch: Path) -> dict[str, Any]:
    work, cache = scratch / "project", scratch / "cache"
    for name in ("stages", "patches"):
        shutil.copytree(ROOT / name, work / name)
    epoch = int(time.time())
    for name in ("pins.toml", "pins.toolbox.toml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (work / name).write_text(re.sub(r"(?m)^epoch = \d+", f"epoch = {epoch}", text))
    store = cache / "files" / "sha256"
    store.mkdir(parents=True)
    for path in (house.cache / "files" / "sha256").iterdir():
        os.link(path, store / path.name)
    env = {"SM121_CHAIN_CACHE": str(cache), "PYTHONPATH": str(ROOT)}

    def client(name: str) -> dict[str, str]:
        return {**env, "XDG_STATE_HOME": str(scratch / name)}

    def build(engine: str, **more: str) -> Measured:
        command = [sys.executable, "-m", "pipeline", "build", "--engine", engine, "--offline"]
        return run([*command, "--out", str(scratch / engine)], cwd=work, env={**env, **more})

    for args in (("fetch", "--offline", "-q"), ("fetch", "--line", "toolbox", "--offline", "-q")):
        run([sys.executable, "-m", "pipeline", *args], cwd=work, env=env)
    local = build("local")
    layers = scratch / "local" / "blobs" / "sha256"
    connect = run([sys.executable, "-m", "pipeline", "doctor"], cwd=work, env=env)
    sent = scratch / "sent"
    sent.mkdir()
    for sha256 in files:
        os.link(store / sha256, sent / sha256)
    moved = {}
    for name, place in (("files", sent), ("layers", layers)):
        out = scratch / f"back-{name}"
        command = [sys.executable, "-m", "bench.dagger", "transfer", str(place), str(out)]
        moved[name] = json.loads(run(command, cwd=ROOT, env=client(name)).stdout)
        shutil.rmtree(out)
    mine = {"XDG_STATE_HOME": str(scratch / "client")}
    cold = build("dagger", **mine)
    warm = build("dagger", **mine)
    same = local.stdout == cold.stdout == warm.stdout
    edit_v1(work)
    edited = build("dagger", **mine)
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
        "edit_seconds": edited.wall,
        "edit_limit_seconds": _EDIT,
        "client_peak_bytes": max(cold.peak, warm.peak, edited.peak),
        "lines_equal": same,
        "edit_steps_run": re.findall(r"\] (\S+)  [\d.]+ s", edited.stderr),
    }


def _table(figures: dict[str, Any]) -> None:
    rows = [
        ("local engine", "local", ""),
        ("connecting (doctor)", "connect", ""),
        ("upload of the wheelhouse", "upload", ""),
        ("export of the layers", "export", ""),
        ("dagger, cold", "cold", "cold_limit"),
        ("dagger, warm", "warm", "warm_limit"),
        ("dagger, an edit in v1", "edit", "edit_limit"),
    ]
    for name, key, limit in rows:
        most = f"at most {figures[f'{limit}_seconds']:.1f} s" if limit else ""
        print(f"{name:30} {figures[f'{key}_seconds']:8.1f} s  {most}", file=sys.stderr)
    print(f"equal lines: {figures['lines_equal']}", file=sys.stderr)
    print(f"client's peak: {figures['client_peak_bytes'] / 2**20:.0f} MiB", file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

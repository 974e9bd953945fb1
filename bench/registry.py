"""What push and pull cost beside skopeo, through a registry on the loopback.

    nox -s bench_registry        a table on stderr, JSON on stdout

It needs docker-registry and skopeo, and three times the size (default 2 GB) of room in TMPDIR.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import Measured, run
from pipeline.oci.image import Layer as ImageLayer
from pipeline.oci.image import Runtime, build_image
from pipeline.oci.layer import LayerWriter
from pipeline.oci.layout import LayoutWriter
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.remote import find_remote, pull_layers
from pipeline.oci.registry.store import BlobStore
from pipeline.progress import Progress

ROOT = Path(__file__).parents[1]
LAYERS = 8
ROUNDS = 3
_LEAST, _MOST = 0.70, 256 * 2**20


def main(args: Sequence[str] = ()) -> int:
    """Measure and print; `pull REF CACHE` is the half that the measured process runs."""
    if args and args[0] == "pull":
        reference, store = parse_reference(args[1]), BlobStore(Path(args[2]))
        repository = Repository(reference)
        pull_layers(repository, find_remote(repository, reference), store, Progress())
        return 0
    missing = [name for name in ("docker-registry", "skopeo") if shutil.which(name) is None]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    size = int(args[0]) if args else 2_000_000_000
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        figures = _measure(Path(scratch), size)
    json.dump(figures, sys.stdout, indent=1)
    print()
    for what in ("push", "pull"):
        ours, theirs = figures[what]["ours_seconds"], figures[what]["skopeo_seconds"]
        print(
            f"{what}: {size / ours / 1e6:.0f} MB/s, skopeo {size / theirs / 1e6:.0f} MB/s:"
            f" {theirs / ours:.0%} (at least {_LEAST:.0%});"
            f" {figures[what]['peak_bytes'] / 2**20:.0f} MiB (at most {_MOST >> 20})",
            file=sys.stderr,
        )
    return 0


def _measure(scratch: Path, size: int) -> dict[str, Any]:
    layout = _image(scratch / "image", size)
    times: dict[str, dict[str, list[Measured]]] = {
        what: {"ours": [], "skopeo": []} for what in ("push", "pull")
    }
    for number in range(ROUNDS):
        # In turn, each with a registry that has nothing yet.
        for who in ("ours", "skopeo") if number % 2 else ("skopeo", "ours"):
            with _registry(scratch / "registry") as host:
                times["push"][who].append(_push(who, layout, host, scratch))
                times["pull"][who].append(_pull(who, host, scratch))
    return {
        "bytes": size,
        **{
            what: {
                "ours_seconds": min(one.wall for one in found["ours"]),
                "skopeo_seconds": min(one.wall for one in found["skopeo"]),
                "all_seconds": {who: [one.wall for one in of] for who, of in found.items()},
                "peak_bytes": max(one.peak for one in found["ours"]),
            }
            for what, found in times.items()
        },
    }


def _push(who: str, layout: Path, host: str, scratch: Path) -> Measured:
    if who == "skopeo":
        command = ["skopeo", "copy", "--quiet", "--override-arch=arm64", "--dest-tls-verify=false",
                   f"oci:{layout}:x", f"docker://{host}/x:x"]  # fmt: skip
        return run(command, cwd=scratch, env={"XDG_DATA_HOME": str(scratch / "data")})
    command = [sys.executable, "-m", "pipeline", "push", "-q", f"oci:{layout}:x", f"{host}/x"]
    return _own(command, scratch)


def _pull(who: str, host: str, scratch: Path) -> Measured:
    target = scratch / "pulled"
    shutil.rmtree(target, ignore_errors=True)
    digest = json.loads((scratch / "image" / "index.json").read_bytes())["manifests"][0]["digest"]
    if who == "skopeo":
        command = ["skopeo", "copy", "--quiet", "--override-arch=arm64", "--src-tls-verify=false",
                   f"docker://{host}/x@{digest}", f"oci:{target}:x"]  # fmt: skip
        measured = run(command, cwd=scratch, env={"XDG_DATA_HOME": str(scratch / "data")})
    else:
        command = [sys.executable, "-m", "bench.registry", "pull", f"{host}/x@{digest}",
                   str(target)]  # fmt: skip
        measured = _own(command, scratch)
    shutil.rmtree(target)
    return measured


def _own(command: list[str], scratch: Path) -> Measured:
    cache = scratch / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    env = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(cache)}
    return run(command, cwd=scratch, env=env)


def _image(root: Path, size: int) -> Path:
    """Write a layout with an image of layers that cannot be compressed."""
    layers = []
    for number in range(LAYERS):
        blob = root.parent / f"layer{number}"
        with LayerWriter(blob, epoch=0, level=1) as writer:
            piece = size // LAYERS // 16
            for part in range(16):
                writer.add_file(f"f{number}/{part}", os.urandom(piece), piece)
            index = writer.close()
        one = ImageLayer(index.digest, index.diff_id, index.size, index.media_type, "bench")
        layers.append((one, blob))
    image = build_image(
        [one for one, _ in layers], Runtime({}), epoch=0, architecture="arm64", annotations={}
    )
    LayoutWriter(root).put("x", image, layers)
    for _, blob in layers:
        blob.unlink()
    return root


@contextmanager
def _registry(directory: Path) -> Iterator[str]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (directory / "config.yml").write_text(
        "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: "
        f"{directory}/data}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        ["docker-registry", "serve", str(directory / "config.yml")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

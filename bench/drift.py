"""What `audit` and `drift` cost, beside plain decompression and pip's own list and check.

    nox -s bench_drift                    of dist/, as `build` leaves it
    nox -s bench_drift -- --dist DIR --from sm121-v4 --to sm121-v5

A table on stderr, JSON on stdout. pip is asked where the image's dist-infos are unpacked, which is
all that it reads. Rates are of one run: on a busy machine only the ratios count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measure import Measured, run
from pipeline.oci.content import decompressed, index_blob, media_type_of
from pipeline.oci.layer import LayerWriter
from pipeline.oci.reading import find_image, open_layout

ROOT = Path(__file__).parents[1]
SITE = "usr/local/lib/python3.11/dist-packages"
MANY, EACH, LARGE = 100, 3000, 300_000_000
_CHUNK = 1024 * 1024
_RATE, _DRIFT, _AUDIT, _PEAK = 0.70, 1.0, 2.0, 512 * 2**20


def main(args: Sequence[str] = ()) -> int:
    """Measure; 1 when a target is missed."""
    parser = argparse.ArgumentParser(prog="bench.drift")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the layout of the chain")
    parser.add_argument("--from", dest="before", default="sm121-v4", metavar="TAG")
    parser.add_argument("--to", dest="after", default="sm121-v5", metavar="TAG")
    options = parser.parse_args(args)
    with tempfile.TemporaryDirectory(prefix="bench-drift-") as name:
        scratch = Path(name)
        rows = dict(_rows(options, scratch))
    width = max(map(len, rows))
    for what, row in rows.items():
        print(f"{what:<{width}}  {row['text']}", file=sys.stderr)
    print(json.dumps(rows, indent=2))
    return int(any(row.get("missed") for row in rows.values()))


def _rows(options: argparse.Namespace, scratch: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    dist = options.dist.absolute()
    yield "first indexing of a layer", _indexing(dist, options.after)
    subjects = [f"oci:{dist}:{tag}" for tag in (options.before, options.after)]
    # With bytecode, as wherever a program is used twice; the shell of a bench may forbid it.
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(scratch / "bytecode")}
    cache = {"SM121_CHAIN_CACHE": str(scratch / "cache"), **bytecode}
    verb = [sys.executable, "-m", "pipeline"]

    def ask(*words: str) -> Measured:
        return _asked([*verb, *words, "--output", "/dev/null"], cache)

    yield "drift, nothing known", _row(ask("drift", *subjects))
    yield "drift, layers known", _row(_best(lambda: ask("drift", *subjects)), wall=_DRIFT)
    yield "audit, layers known", _row(_best(lambda: ask("audit", subjects[1])), wall=_AUDIT)
    _many(scratch / "many")
    many = ask("audit", f"oci:{scratch / 'many'}")
    what = f"{MANY} layers, {MANY * EACH:,} files, {MANY * LARGE / 1e9:.0f} GB"
    yield f"audit of {what}, nothing known", _row(many, peak=_PEAK)
    again = ask("audit", f"oci:{scratch / 'many'}")
    yield "the same, layers known", _row(again, peak=_PEAK)
    python = _python_of(_unpacked(dist, options.after, scratch), scratch)
    listing = [sys.executable, "-m", "pip", "--python", str(python)]
    yield (
        "pip list, of the same dist-infos",
        _row(_best(lambda: _asked([*listing, "list"], bytecode))),
    )
    yield (
        "pip check, of the same dist-infos",
        _row(_best(lambda: _asked([*listing, "check"], bytecode))),
    )


def _indexing(dist: Path, tag: str) -> dict[str, Any]:
    """Read every layer once in full, and once for its index."""
    image, layout = find_image(dist, tag)
    plain = indexed = 0.0
    size = 0
    for layer in dict.fromkeys(image.layers):
        blob = layout.blob(layer.digest, layer.size)
        began = time.monotonic()
        with blob.open("rb") as file, decompressed(file, media_type_of(blob)) as stream:
            while data := stream.read(_CHUNK):
                size += len(data)
        between = time.monotonic()
        index_blob(blob)
        plain += between - began
        indexed += time.monotonic() - between
    ratio = plain / indexed
    return {
        "plain_mb_s": round(size / 1e6 / plain),
        "index_mb_s": round(size / 1e6 / indexed),
        "ratio": round(ratio, 2),
        "missed": ratio < _RATE,
        "text": f"{size / 1e6 / indexed:,.0f} MB/s, {ratio:.0%} of plain decompression"
        f" ({size / 1e6 / plain:,.0f} MB/s; wanted: {_RATE:.0%})",
    }


def _row(found: Measured, *, wall: float = 0, peak: float = 0) -> dict[str, Any]:
    text = f"{found.wall:6.2f} s, {found.cpu:6.2f} s of CPU, {found.peak / 2**20:5.0f} MiB"
    text += f" (wanted: {wall:.0f} s)" if wall else ""
    text += f" (wanted: {peak / 2**20:.0f} MiB)" if peak else ""
    return {
        "wall": round(found.wall, 3),
        "cpu": round(found.cpu, 3),
        "peak": found.peak,
        "missed": bool((wall and found.wall > wall) or (peak and found.peak > peak)),
        "text": text,
    }


def _best(ask: Callable[[], Measured], rounds: int = 3) -> Measured:
    return min((ask() for _ in range(rounds)), key=lambda found: found.wall)


def _asked(command: Sequence[str], env: Mapping[str, str]) -> Measured:
    """Run a command that may end with 1: it has found something."""
    return run(["sh", "-c", '"$@" || [ $? = 1 ]', "sh", *command], cwd=ROOT, env=env)


def _many(root: Path) -> None:
    """Write a layout of many layers, of many small files and a large one each."""
    blobs = root / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    large = root / "large"
    with large.open("wb") as file:
        file.truncate(LARGE)
    layers, diff_ids = [], []
    for number in range(MANY):
        path = blobs / "new"
        with LayerWriter(path, epoch=0, level=1) as writer:
            for small in range(EACH):
                data = f"{number} {small}".encode()
                writer.add_file(f"{SITE}/p{number}/{small:04d}.py", data, len(data))
            with large.open("rb") as stream:
                writer.add_file(f"{SITE}/p{number}/large.bin", stream, LARGE)
            index = writer.close()
        path.rename(blobs / index.digest.removeprefix("sha256:"))
        kind = index.media_type
        layers.append({"mediaType": kind, "digest": index.digest, "size": index.size})
        diff_ids.append(index.diff_id)
    config = {
        "os": "linux",
        "architecture": "arm64",
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }
    kinds = "application/vnd.oci.image"
    manifest = {
        "schemaVersion": 2,
        "config": _stored(blobs, config, f"{kinds}.config.v1+json"),
        "layers": layers,
    }
    entry = _stored(blobs, manifest, f"{kinds}.manifest.v1+json")
    (root / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))


def _stored(blobs: Path, document: Any, kind: str) -> dict[str, Any]:
    data = json.dumps(document).encode()
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def _unpacked(dist: Path, tag: str, scratch: Path) -> Path:
    """Write the dist-infos of an image's site-packages into a directory, and return it."""
    view = open_layout(dist, tag)
    found = [
        path
        for path, located in view.tree.nodes.items()
        if path.startswith(f"{SITE}/") and ".dist-info/" in path and located.entry.has_content
    ]
    for path, data in view.read_many(found).items():
        target = scratch / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return scratch / SITE


def _python_of(site: Path, scratch: Path) -> Path:
    """Return a Python of this machine whose only packages are the image's."""
    home = scratch / "venv"
    venv.create(home, with_pip=False)
    (own,) = (home / "lib").glob("python3.*/site-packages")
    own.rmdir()
    own.symlink_to(site)
    return home / "bin" / "python"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

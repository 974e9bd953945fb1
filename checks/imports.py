"""Unpack an image and import, under qemu-user, what it is for: torch, flashinfer, patched modules.

    nox -s import_check                      v8 of dist/, into a scratch directory, removed after
    nox -s import_check -- v8 --out DIST --scratch DIR --keep

Root, 13 GB of disk and minutes are wanted; on anything but arm64 also qemu-user-static with its
binfmt handler (`update-binfmts --enable qemu-aarch64`). Layers are unpacked here with tarfile and
the whiteout rules of the image specification, not with what assembled them. The image's own
environment is set, and nothing else; /proc is mounted, /sys is not (torch crashes on a host's), and
the image's stub stands for the driver's library. A module that fails is tried again at the end:
some are imported in a circle, which only another one can begin.

stdout is one JSON document: seconds, and for each module its version or the last line of its
traceback. Exit status 1 when a module does not import.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from pipeline.errors import ChainError, OutsideTrouble
from pipeline.oci.reading import find_image
from pipeline.wheels.house import default_cache

_NEEDED = 13_000_000_000
_STAGES = "usr/share/sm121-chain/stages"
_HANDLER = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
_ALWAYS = ("torch", "flashinfer", "vllm")
_STUB = "/usr/local/cuda/lib64/stubs/libcuda.so"
_DEVICES = ("null", "random", "urandom", "zero")

# Runs in the image. One module after the other, so that one that fails hides no other.
_PROBE = """
import importlib, json, os, sys, time
names = json.loads(sys.argv[1])
# What is imported in a circle can be imported once something else has begun the circle.
good = set()
for turn, name in enumerate([*names, *names]):
    if name in good:
        continue
    began = time.monotonic()
    try:
        module = importlib.import_module(name)
        said = {"version": str(getattr(module, "__version__", "")), "file": module.__file__}
        good.add(name)
    except BaseException as error:
        said = {"error": f"{type(error).__name__}: {error}".strip().splitlines()[-1]}
    if "error" in said and turn < len(names):
        said["again"] = True
    said |= {"module": name, "seconds": round(time.monotonic() - began, 1)}
    print("probe " + json.dumps(said), flush=True)
os._exit(0)
"""


def main(args: Sequence[str]) -> int:
    """Unpack, import, tell."""
    parser = argparse.ArgumentParser(prog="nox -s import_check --", description=__doc__)
    parser.add_argument("stage", nargs="?", default="v8", help="which image (default: v8)")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="the layout it stands in")
    parser.add_argument("--scratch", type=Path, default=default_cache(), help="where to unpack")
    parser.add_argument("--keep", action="store_true", help="leave the unpacked tree there")
    options = parser.parse_args(args)
    try:
        check_machine(options.scratch)
        return _check(options)
    except ChainError as error:
        print(f"error: {error.message}\n  {error.hint or error.usual_hint}", file=sys.stderr)
        return error.exit_status


def check_machine(scratch: Path) -> None:
    """Raise OutsideTrouble for what this machine lacks: root, a handler for arm64, disk."""
    if os.geteuid() != 0:
        raise OutsideTrouble("chroot needs root", hint="run it as root")
    handled = _HANDLER.exists() and _HANDLER.read_text().startswith("enabled")
    if platform.machine() != "aarch64" and not handled:
        raise OutsideTrouble(
            "this machine does not run arm64 programs",
            hint="install qemu-user-static, mount binfmt_misc, `update-binfmts --enable "
            "qemu-aarch64`",
        )
    free = shutil.disk_usage(scratch).free
    if free < _NEEDED:
        raise OutsideTrouble(
            f"{scratch}: {free / 1e9:.1f} GB are free, {_NEEDED / 1e9:.0f} GB are needed",
            hint="name another directory with --scratch",
        )


def _check(options: argparse.Namespace) -> int:
    image, layout = find_image(options.out, f"sm121-{options.stage}")
    root = Path(tempfile.mkdtemp(prefix="import-check-", dir=options.scratch))
    try:
        began = time.monotonic()
        for layer in image.layers:
            unpack(layout.blob(layer.digest, layer.size), root)
        unpacked = time.monotonic() - began
        said = _imports(root, image.document["config"], [*_ALWAYS, *patched_modules(root)])
    finally:
        if not options.keep:
            shutil.rmtree(root)
    print(json.dumps({"unpacked": round(unpacked, 1), "modules": said}, indent=2))
    return int(any("error" in one for one in said))


def unpack(blob: Path, root: Path) -> None:
    """Apply a zstd layer to a tree, with whiteouts (image-spec, layer.md).

    Whiteouts hide what lies below this layer, and never what the layer itself brings.
    """
    brought: set[Path] = set()
    with (
        blob.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as plain,
        tarfile.open(fileobj=plain, mode="r|") as tar,
    ):
        for member in tar:
            path = root / member.name
            if path.name == ".wh..wh..opq":
                _empty(path.parent, brought)
            elif path.name.startswith(".wh."):
                _remove(path.with_name(path.name[4:]))
            else:
                if not member.isdir() or path.is_symlink():
                    _remove(path)
                tar.extract(member, root, filter="fully_trusted")
                brought.add(path)


def _empty(directory: Path, keep: set[Path]) -> None:
    for path in directory.iterdir() if directory.is_dir() else ():
        if path not in keep:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def patched_modules(root: Path) -> list[str]:
    """Return the modules that the image itself says its stages patched, sorted."""
    found: set[str] = set()
    for record in sorted((root / _STAGES).glob("*.json")):
        for patch in json.loads(record.read_text(encoding="utf-8"))["patches"]:
            found |= {edit["file"] for edit in patch["edits"] if edit["file"].endswith(".py")}
    names = (path.removesuffix(".py").removesuffix("/__init__") for path in found)
    return sorted(name.replace("/", ".") for name in names)


def _imports(root: Path, config: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, Any]]:
    """Import in the tree; mounts are made in a namespace of their own and end with it."""
    (root / "probe.py").write_text(_PROBE, encoding="utf-8")
    stub = root / "stub" / "libcuda.so.1"  # the driver's library, of which the image has a stub
    stub.parent.mkdir(exist_ok=True)
    stub.unlink(missing_ok=True)
    stub.symlink_to(_STUB)
    inside = 'root=$1; shift; mount -t proc proc "$root/proc"'
    for device in _DEVICES:
        (root / "dev" / device).touch()
        inside += f' && mount --bind /dev/{device} "$root/dev/{device}"'
    inside += ' && exec chroot "$root" env -i "$@"'
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inside, "sh"]
    command.append(str(root))
    command += [
        *config["Env"],
        "HOME=/tmp",
        f"LD_LIBRARY_PATH=/{stub.parent.name}",
        "python3",
        "/probe.py",
        json.dumps(list(names)),
    ]
    said: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            if line.startswith("probe "):
                one = json.loads(line.removeprefix("probe "))
                if not one.pop("again", False):
                    said.append(one)
                print(line.rstrip(), file=sys.stderr, flush=True)  # it takes minutes each
    ended = f"the interpreter ended with status {process.returncode}"
    there = {one["module"] for one in said}
    missing = [name for name in names if name not in there]
    return said + [{"module": name, "error": ended, "seconds": 0.0} for name in missing]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

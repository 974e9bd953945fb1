"""A vendor's image and a line of its own that stands on it.

The image is laid out as the vendor does it: Ubuntu's paths, Python 3.12 with dist-packages, what
pip leaves behind, gzip layers with untidy times, a history with steps that made no layer. Its
wheels are whatever the caller has, tiny ones or those of a wheelhouse.
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.line import PATCHES, Line
from tests.oci.layouts import Layout, tagged
from tests.wheels.makewheel import make_wheel

SITE = "usr/local/lib/python3.12/dist-packages"
HISTORY: list[dict[str, Any]] = [
    {"created": "2026-08-20T10:00:00Z", "created_by": "/bin/sh -c #(nop) ADD file:ubuntu in / "},
    {"created": "2026-08-26T11:02:03.123456789Z", "created_by": "ENV A=1", "empty_layer": True,
     "comment": "buildkit.dockerfile.v0"},
    {"created": "2026-08-26T11:02:04Z", "created_by": "RUN pip install vllm # buildkit"},
    {"created": "2026-08-26T11:02:05Z", "created_by": 'ENTRYPOINT ["vllm" "serve"]',
     "empty_layer": True},
]  # fmt: skip
CONFIG: dict[str, Any] = {
    "Env": ["PATH=/usr/local/nvidia/bin:/usr/bin", "A=1", "UV_HTTP_TIMEOUT=500"],
    "Entrypoint": ["vllm", "serve"],
    "WorkingDir": "/vllm-workspace",
    "ExposedPorts": {"8000/tcp": {}},
    "Labels": {"org.opencontainers.image.version": "22.04", "maintainer": "vendor"},
}
_UBUNTU = {
    "etc/os-release": b'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\n',
    "usr/bin/python3.12": b"\x7fELF not really\n",
    "var/lib/dpkg/status": b"Package: base-files\nStatus: install ok installed\n",
}


def make_vendor(
    root: Path,
    wheels: Sequence[Path],
    *,
    salt: str = "",
    architecture: str = "arm64",
    level: int = 6,
) -> str:
    """Write the vendor's image as a layout with the tag `glm`, and return its digest."""
    layout = Layout(root)
    tars = [
        _tar({**_UBUNTU, "etc/vendor": salt.encode()}, 1_724_800_000),
        _tar(installed(wheels), 1_724_812_345),
    ]
    config = {
        "architecture": architecture,
        "os": "linux",
        "author": "the vendor",
        "created": "2026-08-26T11:02:05Z",
        "config": CONFIG,
        "rootfs": {
            "type": "layers",
            "diff_ids": ["sha256:" + hashlib.sha256(tar).hexdigest() for tar in tars],
        },
        "history": HISTORY,
    }
    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": layout.json(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [layout.blob(gzip.compress(tar, level, mtime=7), kind) for tar in tars],
        "annotations": {"vendor": "yes"},
    }
    descriptor = layout.json(manifest, manifest["mediaType"])
    layout.finish(
        tagged({**descriptor, "platform": {"os": "linux", "architecture": "arm64"}}, "glm")
    )
    digest: str = descriptor["digest"]
    return digest


def installed(wheels: Sequence[Path]) -> dict[str, bytes]:
    """Return what pip makes of wheels without scripts: image path -> content."""
    files: dict[str, bytes] = {}
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            record = next(name for name in names if name.endswith(".dist-info/RECORD"))
            info = record.rpartition("/")[0]
            rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
            for name in names:
                if name != record and ".data/" not in name:
                    files[f"{SITE}/{name}"] = archive.read(name)
        rows = [row for row in rows if ".data/" not in row[0]]
        digest = base64.urlsafe_b64encode(hashlib.sha256(b"pip\n").digest()).decode().rstrip("=")
        files[f"{SITE}/{info}/INSTALLER"] = b"pip\n"
        rows.append([f"{info}/INSTALLER", f"sha256={digest}", "4"])
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(sorted(rows))
        files[f"{SITE}/{record}"] = out.getvalue().encode()
    return files


def _tar(files: Mapping[str, bytes], mtime: int) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        seen: set[str] = set()
        for path, data in files.items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                directory = "/".join(parts[:depth])
                if directory not in seen:
                    seen.add(directory)
                    folder = tarfile.TarInfo(directory + "/")
                    folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, 0o755, mtime
                    archive.addfile(folder)
            member = tarfile.TarInfo(path)
            member.size, member.mtime, member.uname = len(data), mtime + len(path), "root"
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


_LOCK = """
lock-version = "1.0"
created-by = "sm121-chain"
requires-python = ">=3.11,<3.14"
environments = ["sys_platform == 'linux' and platform_machine == 'aarch64'"]
extras = ["day0"]
dependency-groups = ["v3", "v4"]
default-groups = []

[tool.sm121-chain]
epoch = 1767225600
exclude-newer = "2026-11-28T00:00:00Z"
newer = {{}}
requirements = ["vllm==0.30.0"]
zstd = {{ level = 3, library = "1.5.7" }}

[tool.sm121-chain.bases.day0]
image = "{image}"
digest = "{digest}"
platform = "linux/arm64"
python = "3.12"
glibc = "2.35"
site-packages = "/usr/local/lib/python3.12/dist-packages"
{inventory}
"""
_REMOVALS = """
[[tool.sm121-chain.removals]]
base = "day0"
group = "v3"
distribution = "flashinfer-jit-cache"
why = "kernels of another version"
"""

STAGES = {
    "v01-model.toml": """
name = "v1"
title = "Scale by three"
why = "Two is not enough."
parent = "base"
tag = "sm121-v1"
patches = ["scale"]
env = { MODE = "three" }
""",
    "v03-flashinfer.toml": """
name = "v3"
title = "FlashInfer 0.6.18"
why = "0.6.17 has the wrong tile."
parent = "v1"
tag = "sm121-v3"
environment = "v3"

[[checks]]
kind = "version"
distribution = "flashinfer-python"
version = "0.6.18.post1"
""",
    "v04-nccl.toml": """
name = "v4"
title = "NCCL 2.30.7"
why = "It must be this one."
parent = "v3"
tag = "sm121-v4"
environment = "v4"

[status.day0]
state = "held"
reason = "the vendor has it"
""",
}
_PATCH = PATCHES["scale.toml"]


def make_wheels(directory: Path) -> dict[str, Path]:
    """Write the wheels: those of the image by name, and `new`, which v3 installs."""
    directory.mkdir(parents=True)
    model = "def scale(x):\n    return x * 2\n"
    return {
        "vllm": make_wheel(directory, "vllm", "0.30.0", {"vllm/model.py": model}),
        "nccl": make_wheel(directory, "nvidia-nccl-cu13", "2.30.7", {"nvidia/nccl/x.h": "x\n"}),
        "jit": make_wheel(directory, "flashinfer-jit-cache", "0.6.17", {"jit/k.so": "k\n"}),
        "old": make_wheel(
            directory, "flashinfer-python", "0.6.17",
            {"flashinfer/__init__.py": "V = 17\n", "flashinfer/old.py": ""},
        ),
        "new": make_wheel(
            directory, "flashinfer-python", "0.6.18.post1",
            {"flashinfer/__init__.py": "V = 18\n", "flashinfer/new.py": ""},
        ),
    }  # fmt: skip


def lock_text(
    image: str,
    digest: str,
    locked: Mapping[str, Path],
    inventory: str = "",
    *,
    removals: bool = True,
) -> str:
    """Return a lock of `image`; `locked` maps a group to the wheel that it brings."""
    entries = []
    for group, wheel in locked.items():
        name, version = wheel.name.split("-")[:2]
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        entries.append(
            f'[[packages]]\nname = "{name.replace("_", "-").lower()}"\nversion = "{version}"\n'
            f"marker = \"'{group}' in dependency_groups\"\n"
            f'wheels = [{{ path = "wheelhouse/{wheel.name}", size = {wheel.stat().st_size},'
            f' hashes = {{ sha256 = "{sha256}" }} }}]\n'
        )
    head = _LOCK.format(image=image, digest=digest, inventory=inventory)
    return head + (_REMOVALS if removals else "") + "\n" + "\n".join(entries)


def make_vendor_line(scratch: Path, image: str, inventory: str = "") -> tuple[Line, Path]:
    """Write a whole line on a vendor's image called `image`, and the image; nothing is pushed."""
    wheels = make_wheels(scratch / "wheels")
    base = [wheels[name] for name in ("vllm", "nccl", "jit", "old")]
    digest = make_vendor(scratch / "vendor", base)
    root, cache = scratch / "project", scratch / "cache"
    for directory in ("stages", "patches"):
        (root / directory).mkdir(parents=True)
    line = Line(root, cache, {path.name: path for path in wheels.values()})
    for name, text in STAGES.items():
        line.stage(name, text)
    line.patch("scale.toml", _PATCH)
    locked = {"v3": wheels["new"], "v4": wheels["nccl"]}
    text = lock_text(image, digest, locked, inventory)
    (root / "pins.toml").write_text(text, encoding="utf-8")
    store = cache / "files" / "sha256"
    store.mkdir(parents=True)
    new = wheels["new"].read_bytes()
    (store / hashlib.sha256(new).hexdigest()).write_bytes(new)
    return line, scratch / "vendor"


def documents(layout: Path, tag: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return manifest, config and digest of a layout's image."""
    index = json.loads((layout / "index.json").read_bytes())
    (entry,) = [
        one for one in index["manifests"]
        if one["annotations"]["org.opencontainers.image.ref.name"] == tag
    ]  # fmt: skip

    def read(digest: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()
        )
        return document

    manifest = read(entry["digest"])
    return manifest, read(manifest["config"]["digest"]), entry["digest"]

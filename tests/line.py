"""A whole small line: a Debian of one package, a few wheels, stages v1, v3 and v4, and its files.

`make_line` writes a project that `build` takes from its first step to its last within seconds. Its
cache is filled already, so no network is needed.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.wheels.makewheel import make_wheel

SITE = "usr/local/lib/python3.11/dist-packages"
CUDA_HEADER = "CUresult cuInit(unsigned int Flags);\n"
MODEL = "def scale(x):\n    return x * 2\n\n\ndef shift(x):\n    return x + 1\n"
KERNEL = "#define TILE 32\n"
DEB = "tiny_1.0_arm64.deb"

_HEAD = """
lock-version = "1.0"
created-by = "sm121-chain"
requires-python = ">=3.11,<3.14"
environments = ["sys_platform == 'linux' and platform_machine == 'aarch64'"]
extras = ["wheels"]
dependency-groups = ["v3"]
default-groups = []

[tool.sm121-chain]
epoch = 1767225600
exclude-newer = "2026-11-28T00:00:00Z"
newer = {}
requirements = ["vllm==0.30.0"]
zstd = { level = 3, library = "1.5.7" }

[tool.sm121-chain.bases.wheels]
platform = "linux/arm64"
python = "3.11.2"
glibc = "2.36"
site-packages = "/usr/local/lib/python3.11/dist-packages"
suite = "bookworm"
packages = ["tiny"]
"""

STAGES = {
    "v01-model.toml": """
name = "v1"
title = "Scale by three"
why = "Two is not enough."
parent = "base"
tag = "sm121-v1"
patches = ["scale"]

[[checks]]
kind = "contains"
file = "vllm/model.py"
text = "return x * 3"
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
version = "0.6.18"
""",
    "v04-tile.toml": """
name = "v4"
title = "A smaller tile"
why = "32 does not fit."
parent = "v3"
tag = "sm121-v4"
patches = ["tile"]
""",
    "v09-held.toml": """
name = "v9"
title = "Nothing to do here"
why = "It is in the base."
parent = "v4"
tag = "sm121-v9"

[status.wheels]
state = "held"
reason = "the base has it"
""",
}

PATCHES = {
    "scale.toml": '''
name = "scale"
title = "Scale by three"
why = "Two is not enough."
upstream = ""
distribution = "vllm"

[[variants]]
for = "vllm==0.30.*"

[[variants.edits]]
id = "v1.a"
file = "vllm/model.py"
within = "scale"
find = """return x * 2"""
replace = """return x * 3"""
''',
    "tile.toml": '''
name = "tile"
title = "A smaller tile"
why = "32 does not fit."
upstream = ""
distribution = "flashinfer-python"

[[variants]]
for = "flashinfer-python==0.6.18.*"

[[variants.edits]]
id = "v4.a"
file = "flashinfer/data/include/tile.cuh"
find = """TILE 32"""
replace = """TILE 16"""
''',
}


@dataclass(frozen=True)
class Line:
    """A project on disk: its root, its cache, its wheels by file name."""

    root: Path
    cache: Path
    wheels: Mapping[str, Path]

    def stage(self, name: str, text: str) -> None:
        """Write a stage file."""
        (self.root / "stages" / name).write_text(text, encoding="utf-8")

    def patch(self, name: str, text: str) -> None:
        """Write a patch file."""
        (self.root / "patches" / name).write_text(text, encoding="utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace text in one of the project's files; the text must be there."""
        path = self.root / name
        before = path.read_text(encoding="utf-8")
        assert old in before
        path.write_text(before.replace(old, new), encoding="utf-8")

    def replace(self, filename: str, wheel: Path) -> None:
        """Put another wheel in the place of one, in the lock and in the cache."""
        sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
        shutil.copyfile(wheel, self.cache / "files" / "sha256" / sha256)
        self.edit("pins.toml", _pin(self.wheels[filename]), _pin(wheel))

    def stored(self, wheel: str) -> Path:
        """Where the cache keeps a wheel."""
        data = self.wheels[wheel].read_bytes()
        return self.cache / "files" / "sha256" / hashlib.sha256(data).hexdigest()


def make_wheels(directory: Path) -> dict[str, Path]:
    """Write the wheels of the line."""
    directory.mkdir()
    toolkit = {
        "nvidia/cu13/bin/nvcc": "#!/bin/sh\n",
        "nvidia/cu13/include/cuda.h": CUDA_HEADER,
        "nvidia/cu13/nvvm/bin/cicc": "cicc\n",
        "nvidia/cu13/lib/libcudart.so.13": "cudart\n",
    }
    entry = {"entry_points.txt": "[console_scripts]\nvllm = vllm.model:scale\n"}
    made = [
        make_wheel(directory, "nvidia-cuda-nvcc", "13.0.88", toolkit),
        make_wheel(directory, "vllm", "0.30.0", {"vllm/model.py": MODEL}, info=entry),
    ]
    for version in ("0.6.17", "0.6.18"):
        files = {
            "flashinfer/__init__.py": f"__version__ = {version!r}\n",
            "flashinfer/data/include/tile.cuh": KERNEL,
            f"flashinfer/only_{version[-2:]}.py": "",
        }
        made.append(make_wheel(directory, "flashinfer-python", version, files))
    return {path.name: path for path in made}


def make_deb(directory: Path, name: str = "tiny", version: str = "1.0") -> Path:
    """Write a .deb with one file and no scripts (deb(5))."""
    control = (
        f"Package: {name}\nVersion: {version}\nArchitecture: arm64\nMaintainer: t <t@example.org>\n"
        "Essential: yes\nDescription: tiny\n"
    )
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", _tar_xz({"./control": control.encode()})),
        (
            "data.tar.xz",
            _tar_xz(
                {
                    "./usr/share/base-passwd/passwd.master": b"root:*:0:0:root:/root:/bin/bash\n",
                    "./usr/share/base-passwd/group.master": b"root:*:0:\n",
                    f"./usr/share/doc/{name}/copyright": b"free\n",
                }
            ),
        ),
    ]
    data = b"!<arch>\n"
    for member, content in members:
        header = f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n"
        data += header.encode() + content + b"\n" * (len(content) % 2)
    path = directory / f"{name}_{version}_arm64.deb"
    path.write_bytes(data)
    return path


def _tar_xz(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return lzma.compress(out.getvalue())


def lock_text(wheels: Mapping[str, Path], deb: Path) -> str:
    """Return a lock of these wheels: every FlashInfer but the first is v3's."""
    entries = []
    flashinfer = sorted(name for name in wheels if name.startswith("flashinfer"))
    for filename in sorted(wheels):
        name, version = filename.split("-")[:2]
        marker = ""
        if filename in flashinfer:
            negation = "not " if filename == flashinfer[0] else ""
            marker = f"marker = \"'v3' {negation}in dependency_groups\"\n"
        entries.append(
            f'[[packages]]\nname = "{name.replace("_", "-")}"\nversion = "{version}"\n{marker}'
            f'wheels = [{{ path = "wheelhouse/{filename}", {_pin(wheels[filename])} }}]\n'
        )
    pool = f"pool/main/t/tiny/{deb.name}"
    sha256 = hashlib.sha256(deb.read_bytes()).hexdigest()
    debs = (
        f'debs = [{{ name = "tiny", version = "1.0", path = "{pool}",'
        f' size = {deb.stat().st_size}, sha256 = "{sha256}" }}]\n'
    )
    return _HEAD + debs + "\n" + "\n".join(entries)


def add_toolbox(line: Line) -> None:
    """Write a lock of the line `toolbox` for linux/arm64: the smallest image that can be made.

    No step runs in it, so it fits where the engine is a stand-in.
    """
    name = next(name for name in line.wheels if name.startswith("vllm"))
    text = lock_text({name: line.wheels[name]}, line.cache.parent / "scratch" / DEB)
    text = text.replace('extras = ["wheels"]', 'extras = ["arm64"]')
    text = text.replace("bases.wheels", "bases.arm64")
    text = text.replace('dependency-groups = ["v3"]', "dependency-groups = []")
    (line.root / "pins.toolbox.toml").write_text(text, encoding="utf-8")


def _pin(path: Path) -> str:
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    return f'size = {path.stat().st_size}, hashes = {{ sha256 = "{sha256}" }}'


def make_line(root: Path, cache: Path, scratch: Path) -> Line:
    """Write the project into `root` and everything that its lock names into `cache`."""
    scratch.mkdir()
    wheels, deb = make_wheels(scratch / "wheels"), make_deb(scratch)
    store = cache / "files" / "sha256"
    store.mkdir(parents=True, exist_ok=True)
    for path in (*wheels.values(), deb):
        shutil.copyfile(path, store / hashlib.sha256(path.read_bytes()).hexdigest())
    for directory, texts in (("stages", STAGES), ("patches", PATCHES)):
        (root / directory).mkdir(parents=True)
        for name, text in texts.items():
            (root / directory / name).write_text(text, encoding="utf-8")
    (root / "pins.toml").write_text(lock_text(wheels, deb), encoding="utf-8")
    return Line(root, cache, wheels)


def built_line(scratch: Path, *edits: tuple[str, str, str]) -> Line:
    """Return a line with its dist/, after `edits` of its files (path, text, what replaces it)."""
    line = make_line(scratch / "project", scratch / "cache", scratch / "scratch")
    for edit in edits:
        line.edit(*edit)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(line.root)
        patch.setenv("SM121_CHAIN_CACHE", str(line.cache))
        assert main(["build", "--offline", "-q"]) == 0
    return line


def entered(built: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    """Return a copy of a built line, as the working directory, with an empty cache of its own."""
    root = tmp_path / "project"
    shutil.copytree(built.root, root)
    monkeypatch.chdir(root)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return Line(root, tmp_path / "cache", built.wheels)

"""The audit on the metadata and the sources of the locked wheels themselves."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipeline.audit.expectation import LedgerEntry
from pipeline.audit.run import audit
from pipeline.pins import LockedWheel, load_lock
from pipeline.wheels.house import Wheelhouse, default_cache
from tests.audit.images import GONE, SITE, Content, expect, image
from tests.wheels.makewheel import make_wheel

ROOT = Path(__file__).parents[2]
LOCK = load_lock(ROOT / "pins.toml")
HOUSE = Wheelhouse(default_cache())
DSL = "nvidia-cutlass-dsl"
CODE = (DSL, f"{DSL}-libs-base", f"{DSL}-libs-core")  # the others hold no Python


def wheels(*groups: str) -> dict[str, LockedWheel]:
    return {wheel.name: wheel for wheel in LOCK.select("wheels", groups)}


def opened(wheel: LockedWheel) -> zipfile.ZipFile:
    path = HOUSE.path(wheel.sha256)
    if not path.exists():
        pytest.skip(f"{wheel.filename} is not in the wheelhouse ({HOUSE.cache})")
    return zipfile.ZipFile(path)


def installed(wheel: LockedWheel) -> dict[str, Content]:
    """A wheel's Python sources and metadata, where they are installed; of binaries the names."""
    found: dict[str, Content] = {}
    with opened(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/"):
                continue
            if name.endswith((".py", ".pth")) or ".dist-info/" in name:
                found[f"{SITE}/{name}"] = archive.read(name)
            elif name.endswith(".so"):
                found[f"{SITE}/{name}"] = b""
    return found


def gone(wheel: LockedWheel) -> dict[str, Content]:
    return dict.fromkeys(installed(wheel), GONE)


def test_v5_that_forgets_quack_is_caught_by_the_import_that_breaks(tmp_path: Path) -> None:
    before, after = wheels("v3", "v4"), wheels("v3", "v4", "v5")
    quack = before["quack-kernels"]
    base, moved = installed(quack), dict[str, Content]()
    for name in CODE:
        base |= installed(before[name])
        moved |= gone(before[name])
    for name in CODE:
        moved |= installed(after[name])
    # Even a ledger that means it does not make it work.
    ledger = [
        LedgerEntry(f"{DSL}=={after[DSL].version}", ("quack-kernels 0.6.5 wants >=4.7",), "v5"),
    ]
    below = image(tmp_path, base)
    view = image(tmp_path, base, moved)
    parent = audit(below, expect()).baseline
    assert parent.broken_imports == frozenset()
    for known in (parent, None):  # with the parent's image, and without
        report = audit(
            view, expect(ledger=tuple(ledger)), parent=known, below=below if known else None
        )
        (broken,) = report.broken_imports
        assert (broken.dependant, broken.module) == ("quack-kernels", "cutlass.base_dsl.enums")
        assert broken.path.startswith(f"{SITE}/quack/") and broken.line and broken.files >= 6
        (finding,) = [one for one in report.findings if one.rule == "import-broken"]
        assert finding.severity == "error" and finding.layer == view.layers[1].digest
    right = base | moved | gone(quack) | installed(after["quack-kernels"])
    assert audit(image(tmp_path, base, right), expect()).broken_imports == ()


def test_the_real_requirements_walked_take_nccl_down(tmp_path: Path) -> None:
    """All distributions of v5 by their real metadata, and FlashInfer installed once more with its
    requirements: torch's own pin moves NCCL, and 0.6.18.post1 leaves cutlass-dsl alone."""
    chosen = wheels("v3", "v4", "v5")
    every = [*chosen.values(), *wheels().values()]
    for wheel in every:
        with opened(wheel) as archive:
            (info,) = [n for n in archive.namelist() if re.fullmatch(r"[^/]+-info/METADATA", n)]
            metadata = archive.read(info).decode()
        version = re.sub(r"[^\w.!+]+", "_", wheel.version)
        make_wheel(tmp_path / "wheels", wheel.name, version, info={"METADATA": metadata})
    python = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python], check=True)
    (site,) = python.glob("lib/python3*/site-packages")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-index",
        "--no-config",
    ]
    command += ["--python", str(python), "--find-links", str(tmp_path / "wheels")]
    command += ["--cache-dir", str(tmp_path / "cache")]
    spelled = [f"{wheel.name}=={wheel.version}" for wheel in chosen.values()]
    subprocess.run([*command, "--no-deps", *spelled], check=True)

    def files() -> dict[str, Content]:
        return {
            f"{SITE}/{path.relative_to(site).as_posix()}": path.read_bytes()
            for path in site.glob("*.dist-info/*")
        }

    base = files()
    flashinfer = f"flashinfer-python=={chosen['flashinfer-python'].version}"
    subprocess.run([*command, "--reinstall-package=flashinfer-python", flashinfer], check=True)
    now = files()
    layer: dict[str, Content] = {path: data for path, data in now.items() if base.get(path) != data}
    infos = {path.rpartition("/")[0] for path in now}
    layer |= {info: GONE for path in base if (info := path.rpartition("/")[0]) not in infos}
    pins = {wheel.name: wheel.version for wheel in chosen.values()}
    report = audit(image(tmp_path, base, layer), expect(pins))
    moved = {f.subject: f.message for f in report.findings if f.rule.startswith("pin-")}
    assert moved["nvidia-nccl-cu13"].endswith("; torch 2.13.0 wants nvidia-nccl-cu13==2.29.7")

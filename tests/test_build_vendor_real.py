"""The real stages and patches on a vendor's image of real wheels, through a loopback registry.

The wheels come from the wheelhouse; without them the test is skipped and says so. What vLLM and
FlashInfer ask for is there as stubs: distributions of the right name and version without modules.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.pins import load_lock
from pipeline.wheels.house import Wheelhouse, default_cache
from tests.line import Line
from tests.oci.registry.server import Registry
from tests.test_build_vendor import build, entries, fill
from tests.vendor import SITE, documents, lock_text, make_vendor
from tests.wheels.makewheel import make_wheel

ROOT = Path(__file__).parents[1]
_REAL = ("vllm", "flashinfer-python")
# What the vendor's image holds otherwise than the base `wheels`.
_VENDORS = {"nvidia-nccl-cu13": "2.30.7", "quack-kernels": "0.6.4", "nvidia-cutlass-dsl": "4.6.2"}
_VENDORS |= {f"nvidia-cutlass-dsl-libs-{one}": "4.6.2" for one in ("base", "core", "cu12", "cu13")}
# Python 3.12 asks for these besides; both are in no lock of Python 3.11.
_PYTHON_3_12 = {"setuptools": "80.9.0", "six": "1.17.0"}
_LEDGER = """
[[tool.sm121-chain.overrides]]
base = "day0"
group = "{group}"
requirement = "{requirement}"
against = ["vllm 0.30.0 wants =={wanted}"]
why = "the image holds it so"
review = "2027-03-01"
"""
_OVERRIDES = (
    ("", "flashinfer-python==0.6.17", "0.6.18.post1"),
    ("", "nvidia-cutlass-dsl[cu13]==4.6.2", "4.7.1"),
    ("", "quack-kernels==0.6.4", "0.6.5"),
    ("v3", "flashinfer-python==0.6.18.post1", "0.6.18.post1"),
)
_STAGES = ("v01", "v03", "v04", "v05", "v06", "v07", "v08", "v10")


def real(name: str, groups: tuple[str, ...], scratch: Path) -> Path:
    """Return a locked wheel under its own name, or skip the test."""
    lock, house = load_lock(ROOT / "pins.toml"), Wheelhouse(default_cache())
    wheel = next(one for one in lock.select("wheels", groups) if one.name == name)
    if not house.path(wheel.sha256).is_file():
        pytest.skip(f"{wheel.filename} is not in {house.cache}: run `sm121-chain fetch`")
    scratch.mkdir(parents=True, exist_ok=True)
    named = scratch / wheel.filename
    named.symlink_to(house.path(wheel.sha256))
    return named


def test_the_real_chain_on_a_vendors_image(tmp_path: Path, registry: Registry) -> None:
    wheels = [real(name, (), tmp_path / "real") for name in _REAL]
    new = real("flashinfer-python", ("v3",), tmp_path / "real")
    (tmp_path / "stubs").mkdir()
    locked = {one.name: one.version for one in load_lock(ROOT / "pins.toml").select("wheels")}
    stubs = [
        make_wheel(tmp_path / "stubs", name, version, {})
        for name, version in (locked | _VENDORS | _PYTHON_3_12).items()
        if name not in _REAL
    ]
    nccl = next(path for path in stubs if path.name.startswith("nvidia_nccl"))
    digest = make_vendor(tmp_path / "vendor", [*wheels, *stubs], level=1)
    fill(registry, tmp_path / "vendor")
    root, cache = tmp_path / "project", tmp_path / "cache"
    shutil.copytree(ROOT / "patches", root / "patches")
    (root / "stages").mkdir()
    for name in _STAGES:
        (file,) = (ROOT / "stages").glob(f"{name}-*.toml")
        text = file.read_text(encoding="utf-8")
        (root / "stages" / file.name).write_text(text, encoding="utf-8")
    text = lock_text(
        f"{registry.host}/vendor:glm", digest, {"v3": new, "v4": nccl}, removals=False
    ).replace('["v3", "v4"]', '["v3", "v4", "v5"]')
    ledger = "".join(
        _LEDGER.format(group=group, requirement=requirement, wanted=wanted)
        for group, requirement, wanted in _OVERRIDES
    )
    (root / "pins.toml").write_text(text + ledger, encoding="utf-8")
    (cache / "files" / "sha256").mkdir(parents=True)
    shutil.copyfile(new, cache / "files" / "sha256" / new.resolve().name)

    done = build(Line(root, cache, {}))
    assert done.returncode == 0, done.stderr
    lines = [line.split()[0] for line in done.stdout.splitlines()]
    assert lines == ["sm121-base", *(f"sm121-v{n}" for n in (1, 3, 4, 5, 6, 7, 8, 10))]
    assert "sm121-v4 held v3" in done.stdout and "sm121-v5 held v3" in done.stdout
    vendor = documents(tmp_path / "vendor", "glm")[0]
    v10 = documents(root / "dist", "sm121-v10")[0]
    assert v10["layers"][:2] == vendor["layers"]
    v1 = documents(root / "dist", "sm121-v1")[0]
    patched = entries(root / "dist", v1["layers"][-1]["digest"])
    assert b"FLASHINFER_MLA_SPARSE_SM90" in patched[f"{SITE}/vllm/platforms/cuda.py"]

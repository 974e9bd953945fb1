"""The toolbox: its lock against the program's own, its image, its archive."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import pytest

from pipeline.engines.keys import _LIBRARIES, imported
from pipeline.engines.local import LocalEngine
from pipeline.errors import OutsideTrouble
from pipeline.pins import load_lock
from pipeline.plan_base import CONFLICTS, SYSTEM
from pipeline.steps.program import PROGRAMS
from pipeline.toolbox import LINE, base_for, make_toolbox, toolbox_plan
from pipeline.wheels.house import Wheelhouse
from tests.line import add_toolbox, make_line

ROOT = Path(__file__).parents[1]
MOST = 150_000_000  # bytes, packed


def test_its_libraries_are_those_that_the_program_is_locked_to() -> None:
    lock = load_lock(ROOT / "pins.toolbox.toml")
    text = (ROOT / "requirements" / "run.txt").read_text(encoding="utf-8")
    ours = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, re.MULTILINE))
    for base in lock.bases:
        locked = {wheel.name: wheel.version for wheel in lock.select(base)}
        assert sorted(locked) == sorted(_LIBRARIES)
        assert all(ours[name] == version for name, version in locked.items())


def test_it_has_every_library_that_a_step_imports() -> None:
    modules = imported(
        ["pipeline.steps.contained", *(f"pipeline.steps.{m}" for m in PROGRAMS.values())]
    )
    names = set()
    for module in modules:
        path = ROOT.joinpath(*module.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    outside = {name for name in names - set(sys.stdlib_module_names) if name != "pipeline"}
    packages = {name.replace("-", "_") for name in _LIBRARIES} - {"pyelftools"}
    assert outside <= packages | {"elftools"}


def test_it_is_for_both_architectures_and_small() -> None:
    lock = load_lock(ROOT / "pins.toolbox.toml")
    assert sorted(base.platform for base in lock.bases.values()) == ["linux/amd64", "linux/arm64"]
    for name, base in lock.bases.items():
        packed = [*base.debs, *lock.select(name)]
        assert sum(file.size or 0 for file in packed) < MOST


def test_an_engine_of_another_architecture_is_refused() -> None:
    lock = load_lock(ROOT / "pins.toolbox.toml")
    assert base_for(lock, "linux/arm64/v8").name == "arm64"
    with pytest.raises(OutsideTrouble, match="no toolbox for an engine on linux/riscv64"):
        base_for(lock, "linux/riscv64")


def test_it_has_no_places_of_cuda() -> None:
    lock = load_lock(ROOT / "pins.toolbox.toml")
    programs = {step.program for step in toolbox_plan(lock, lock.base("amd64")).steps.values()}
    assert programs == {"debian-layer", CONFLICTS, "wheel-layer"} and SYSTEM not in programs


def test_the_archive_is_an_oci_layout_and_is_found_again(tmp_path: Path) -> None:
    line = make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")
    add_toolbox(line)
    lock = load_lock(line.root / f"pins.{LINE}.toml")
    house, engine = Wheelhouse(line.cache), LocalEngine(line.cache, 2)

    def make() -> Path:
        return make_toolbox(lock, lock.base("arm64"), house, engine, offline=True)

    archive = make()
    before = archive.stat()
    assert make() == archive and archive.stat() == before
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
        assert {member.mtime for member in tar.getmembers()} == {0}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2]
    entry = json.loads(files["index.json"])["manifests"][0]
    assert entry["digest"].removeprefix("sha256:") == archive.stem
    manifest = json.loads(files[f"blobs/sha256/{archive.stem}"])
    named = [manifest["config"], *manifest["layers"]]
    assert all(f"blobs/sha256/{item['digest'][7:]}" in files for item in named)
    config = json.loads(files[f"blobs/sha256/{manifest['config']['digest'][7:]}"])
    assert (config["architecture"], len(config["rootfs"]["diff_ids"])) == ("arm64", 2)
    archive.unlink()
    with io.BytesIO() as again:
        again.write(make().read_bytes())
        assert (
            hashlib.sha256(again.getvalue()).digest()
            == hashlib.sha256(archive.read_bytes()).digest()
        )

"""`[[files]]` of a stage: single files out of a locked wheel, by their hashes, on their base."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from pipeline.cli.fetch import needed_wheels
from pipeline.errors import FaultyFile
from pipeline.project import Project
from pipeline.stage_files import load_chain
from tests.line import SITE, Line, make_line
from tests.oci.readimage import read_image
from tests.test_build import build, refused
from tests.wheels.makewheel import make_wheel

MEMBER = "vllm/model_executor/drafter.py"
CONTENT = "def draft():\n    return 7\n"
SHA256 = hashlib.sha256(CONTENT.encode()).hexdigest()
STAGE = f"""
name = "v5"
title = "files"
why = "to add files"
parent = "v4"
tag = "sm121-v5"
[[files]]
wheel = "vllm==0.28.0"
member = "{MEMBER}"
sha256 = "{SHA256}"
destination = "/{SITE}/{MEMBER}"
mode = "0640"
[[files]]
base = "day0"
wheel = "vllm==9.9"
member = "nowhere.py"
sha256 = "{SHA256}"
destination = "/opt/nowhere.py"
"""


@pytest.fixture
def line(tmp_path: Path) -> Line:
    made = make_line(tmp_path / "project", tmp_path / "cache", tmp_path / "scratch")
    made.stage("v05-files.toml", STAGE)
    wheel = make_wheel(tmp_path, "vllm", "0.28.0", {MEMBER: CONTENT})
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    shutil.copyfile(wheel, made.cache / "files" / "sha256" / sha256)
    entry = (
        f'[[tool.sm121-chain.artifacts]]\nname = "vllm"\nversion = "0.28.0"\n'
        f'filename = "{wheel.name}"\nsize = {wheel.stat().st_size}\nsha256 = "{sha256}"\n'
        f'why = "one file of it"\n\n'
    )
    pins = made.root / "pins.toml"
    head, separator, packages = pins.read_text(encoding="utf-8").partition("[[packages]]")
    pins.write_text(head + entry + separator + packages, encoding="utf-8")
    return made


def test_a_member_is_added_as_it_is(line: Line) -> None:
    done = build(line, "--to", "v5")
    assert done.returncode == 0, done.stderr
    image = read_image(line.root / "dist", "sm121-v5")
    assert image.read(f"{SITE}/{MEMBER}") == CONTENT.encode()
    assert "opt/nowhere.py" not in image.files
    # the wheel itself is not installed
    assert not any("vllm-0.28.0" in path for path in image.files)


def test_another_content_than_the_stage_says_is_refused(line: Line) -> None:
    rest = f'"\ndestination = "/{SITE}'
    line.edit("stages/v05-files.toml", SHA256 + rest, "0" * 64 + rest)
    refused(build(line, "--to", "v5"), 1, MEMBER, "0" * 64, SHA256)


def test_a_member_that_is_not_there_is_refused(line: Line) -> None:
    line.edit("stages/v05-files.toml", f'member = "{MEMBER}"', 'member = "vllm/other.py"')
    refused(build(line, "--to", "v5"), 1, "vllm-0.28.0", "vllm/other.py")


def test_a_wheel_that_is_not_locked_is_refused(line: Line) -> None:
    line.edit("stages/v05-files.toml", '"vllm==0.28.0"', '"vllm==0.27.0"')
    refused(build(line, "--to", "v5"), 2, "v05-files.toml", "vllm==0.27.0")


def test_fetch_brings_the_wheel(line: Line) -> None:
    project = Project(line.root)
    for stage, versions in (("v5", ["0.28.0", "0.30.0"]), ("v4", ["0.30.0"])):
        wheels = needed_wheels(project.lock, project.chain, "wheels", stage)
        assert [wheel.version for wheel in wheels if wheel.name == "vllm"] == versions


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ('wheel = "vllm==0.28.0"\n', "", "files[0].source"),
        ('wheel = "vllm==0.28.0"', 'wheel = "vllm"', "files[0].wheel"),
        ('wheel = "vllm==0.28.0"', 'wheel = "vllm==0.28.0"\nsource = "x"', "files[0].source"),
        (f'member = "{MEMBER}"\n', "", "files[0].member"),
        (SHA256, "abc", "files[0].sha256"),
        ('base = "day0"', 'base = "night0"', "files[1].base"),
        ('mode = "0640"', 'mode = "640"', "files[0].mode"),
    ],
)
def test_faults(tmp_path: Path, old: str, new: str, where: str) -> None:
    (tmp_path / "v05-files.toml").write_text(STAGE.replace(old, new).replace("v4", "base"), "utf-8")
    with pytest.raises(FaultyFile) as caught:
        load_chain(tmp_path)
    assert any(fault.where.endswith(f": {where}") for fault in caught.value.faults)

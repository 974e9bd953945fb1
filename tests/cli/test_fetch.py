"""The verb `fetch`: its output, exit status, and which wheels a base and a stage need."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.chain import Chain
from pipeline.cli import main
from pipeline.cli.fetch import needed_wheels
from pipeline.lock.model import Lock, LockedWheel
from pipeline.pins import load_lock
from pipeline.stage_files import load_chain

Make = Callable[..., tuple[LockedWheel, bytes]]
DEB = b"not really a package"
DEB_PATH = "pool/main/z/zlib/zlib1g_1.2.13_arm64.deb"

LOCK = """
lock-version = "1.0"
created-by = "sm121-chain"
requires-python = ">=3.11,<3.14"
environments = ["sys_platform == 'linux' and platform_machine == 'aarch64'"]
extras = ["day0", "wheels"]
dependency-groups = ["v3", "v4"]
default-groups = []
{packages}
[tool.sm121-chain]
epoch = 1767225600
exclude-newer = "2026-11-28T00:00:00Z"
newer = {{}}
requirements = ["one"]
[tool.sm121-chain.zstd]
level = 3
library = "1.5.7"
[tool.sm121-chain.bases.wheels]
platform = "linux/arm64"
python = "3.11.2"
glibc = "2.36"
site-packages = "/usr/local/lib/python3.11/dist-packages"
suite = "bookworm"
packages = ["zlib1g"]
debs = [{{ name = "zlib1g", version = "1.2.13", path = "{deb}", size = {size}, sha256 = "{sha}" }}]
[tool.sm121-chain.bases.day0]
image = "example/image:tag"
digest = "sha256:{zeros}"
platform = "linux/arm64"
python = "3.12"
glibc = "2.39"
site-packages = "/usr/local/lib/python3.12/dist-packages"
inventory = ["one==1.0", "two==1.0"]
"""
PACKAGE = """
[[packages]]
name = "{name}"
version = "{version}"
{marker}wheels = [{{ {where}, size = {size}, hashes = {{ sha256 = "{sha256}" }} }}]
"""
STAGE = """
name = "{name}"
title = "t"
why = "w"
parent = "{parent}"
tag = "sm121-{name}"
environment = "{name}"
"""


def package(wheel: LockedWheel, marker: str = "") -> str:
    return PACKAGE.format(
        name=wheel.name,
        version=wheel.version,
        marker=f'marker = "{marker}"\n' if marker else "",
        where=f'path = "wheelhouse/{wheel.filename}"',
        size=wheel.size,
        sha256=wheel.sha256,
    )


@pytest.fixture
def project(
    tmp_path: Path, site: Any, pip_asks: None, tiny_wheel: Make, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A line of two stages: v3 moves `two` to 2.0, v4 moves it back."""
    one, two, newer = (
        tiny_wheel(name, version)
        for name, version in (("one", "1.0"), ("two", "1.0"), ("two", "2.0"))
    )
    for wheel, data in (one, two, newer):
        site.publish(wheel, data)
    site.files[f"/debian/{DEB_PATH}"] = DEB
    packages = (
        package(one[0])
        + package(two[0], "'v3' not in dependency_groups or 'v4' in dependency_groups")
        + package(newer[0], "'v3' in dependency_groups and 'v4' not in dependency_groups")
    )
    digest = hashlib.sha256(DEB).hexdigest()
    (tmp_path / "pins.toml").write_text(
        LOCK.format(packages=packages, deb=DEB_PATH, size=len(DEB), sha=digest, zeros="0" * 64),
        encoding="utf-8",
    )
    (tmp_path / "stages").mkdir()
    for name, parent in (("v3", "base"), ("v4", "v3")):
        text = STAGE.format(name=name, parent=parent)
        (tmp_path / "stages" / f"{name}.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(wheels: list[LockedWheel]) -> list[str]:
    return [f"{wheel.name} {wheel.version}" for wheel in wheels]


def read(project: Path) -> tuple[Lock, Chain]:
    return load_lock(project / "pins.toml"), load_chain(project / "stages")


def test_base_of_wheels_needs_itself_and_what_the_stages_bring(project: Path) -> None:
    lock, chain = read(project)
    assert names(needed_wheels(lock, chain, "wheels", None)) == ["one 1.0", "two 1.0", "two 2.0"]
    assert names(needed_wheels(lock, chain, "wheels", "base")) == ["one 1.0", "two 1.0"]


def test_image_as_base_needs_only_what_the_stages_change(project: Path) -> None:
    lock, chain = read(project)
    assert names(needed_wheels(lock, chain, "day0", "base")) == []
    assert names(needed_wheels(lock, chain, "day0", "v3")) == ["two 2.0"]
    # v4 moves back to the version of the base: by then it is not in the image any more.
    assert names(needed_wheels(lock, chain, "day0", "v4")) == ["two 1.0", "two 2.0"]


def test_held_stage_needs_nothing(project: Path) -> None:
    file = project / "stages/v4.toml"
    held = '[status.day0]\nstate = "held"\nreason = "the base has it"\n'
    file.write_text(file.read_text(encoding="utf-8") + held, encoding="utf-8")
    lock, chain = read(project)
    assert names(needed_wheels(lock, chain, "day0", None)) == ["two 2.0"]


def test_fetch_fills_the_store_and_links_the_wheels(
    project: Path, site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "--debian-mirror", f"{site.url}/debian"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[-1].startswith("4 files, ")
    assert "4 fetched now" in err.splitlines()[-1]
    assert sorted(p.name for p in (project / "wheelhouse").iterdir()) == [
        "one-1.0-py3-none-any.whl",
        "two-1.0-py3-none-any.whl",
        "two-2.0-py3-none-any.whl",
    ]
    site.files.clear()
    assert main(["fetch", "-q", "--offline"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert "0 fetched now (0 bytes), 4 kept from earlier" in line


def test_offline_with_an_empty_store_is_3_and_names_the_files(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "--offline"]) == 3
    err = capsys.readouterr().err
    assert "two-2.0-py3-none-any.whl" in err
    assert "zlib1g_1.2.13_arm64.deb" in err


def test_gone_is_1_and_unreachable_is_3(
    project: Path,
    site: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mirror = ["--debian-mirror", f"{site.url}/debian"]
    del site.files["/files/two-2.0-py3-none-any.whl"]
    assert main(["fetch", *mirror]) == 1
    err = capsys.readouterr().err
    assert "gone: two-2.0-py3-none-any.whl" in err
    assert "next:" in err
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert main(["fetch", *mirror]) == 3
    err = capsys.readouterr().err
    assert "refused" in err
    assert "Traceback" not in err


def test_yanked_release_is_a_warning(
    project: Path, site: Any, tiny_wheel: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    site.files["/simple/one/"] = site.files["/simple/one/"].replace(
        b"<a ", b'<a data-yanked="broken" '
    )
    assert main(["fetch", "--debian-mirror", f"{site.url}/debian"]) == 0
    assert "warning: yanked: one 1.0" in capsys.readouterr().err


def test_jobs_must_be_positive(project: Path) -> None:
    assert main(["fetch", "--jobs", "0"]) == 2


def test_wheelhouse_that_is_not_writable_is_3(
    project: Path, site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "wheelhouse").write_text("a file", encoding="utf-8")
    assert main(["fetch", "--debian-mirror", f"{site.url}/debian"]) == 3
    assert f"linked into {os.fspath(project)}" in capsys.readouterr().err

"""apt: what its answers become, and its failures. A program of ours stands for apt."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.lock import debs as module
from pipeline.lock.debs import offered, resolve_debs
from pipeline.lock.model import LockedDeb

AVAILABLE = f"""Package: bash
Essential: yes
Version: 5.2
Filename: pool/main/b/bash/bash_5.2_arm64.deb
SHA256: {"1" * 64}
Description: a shell
 with
 Essential: yes

Package: g++
Version: 4:12
Filename: pool/main/g/gcc-defaults/g++_12_arm64.deb
SHA256: {"2" * 64}
"""
URIS = f"""'http://mirror.invalid/debian/pool/main/b/bash/bash_5.2%2bb1_arm64.deb' \
bash_1%3a5.2+b1_arm64.deb 20 SHA256:{"1" * 64}
'http://mirror.invalid/debian/pool/main/g/gcc-defaults/g%2b%2b_12_arm64.deb' \
g++_4%3a12_arm64.deb 10 SHA256:{"2" * 64}
"""


@pytest.fixture
def apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose `apt-get` and `apt-cache` come first on PATH; files in it are answers."""
    (tmp_path / "available").write_text(AVAILABLE, encoding="utf-8")
    (tmp_path / "uris").write_text(URIS, encoding="utf-8")
    for name, body in {
        "apt-get": f"""echo "$@" >> {tmp_path}/calls
case "$*" in
*update) [ ! -e {tmp_path}/offline ] || {{ echo 'E: Failed to fetch' >&2; exit 100; }};;
*print-uris*) [ ! -e {tmp_path}/unmet ] || {{ echo 'E: Unable to locate' >&2; exit 100; }}
cat {tmp_path}/uris;; esac""",
        "apt-cache": f"cat {tmp_path}/available",
    }.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def resolved() -> list[LockedDeb]:
    return resolve_debs("bookworm", "linux/arm64", ["g++"], mirror="http://mirror.invalid/debian")


def test_names_versions_and_paths_are_decoded_and_no_host_stays(apt: Path) -> None:
    assert resolved() == [
        LockedDeb("bash", "1:5.2+b1", "pool/main/b/bash/bash_5.2+b1_arm64.deb", 20, "1" * 64),
        LockedDeb("g++", "4:12", "pool/main/g/gcc-defaults/g++_12_arm64.deb", 10, "2" * 64),
    ]


def test_apt_is_isolated_and_asked_for_what_is_essential_too(apt: Path) -> None:
    resolved()
    calls = (apt / "calls").read_text(encoding="utf-8").splitlines()
    install = next(call for call in calls if "print-uris" in call)
    assert install.endswith("install --print-uris -qq bash g++")
    for option in (
        "APT::Architecture=arm64",
        "APT::Install-Recommends=false",
        "Acquire::ForceHash=SHA256",
        "Dir::Etc::sourceparts=/dev/null",
        "Dir::State::status=",
    ):
        assert all(option in call for call in calls)


def test_offered_is_what_the_lists_hold(apt: Path) -> None:
    there = offered("bookworm", "linux/arm64", mirror="http://mirror.invalid/debian")
    assert there == {
        ("pool/main/b/bash/bash_5.2_arm64.deb", "1" * 64),
        ("pool/main/g/gcc-defaults/g++_12_arm64.deb", "2" * 64),
    }


def test_a_mirror_that_cannot_be_reached(apt: Path) -> None:
    (apt / "offline").touch()
    with pytest.raises(OutsideTrouble) as caught:
        resolved()
    assert caught.value.details == ("E: Failed to fetch",)


def test_packages_that_do_not_go_together(apt: Path) -> None:
    (apt / "unmet").touch()
    with pytest.raises(Refusal) as caught:
        resolved()
    assert caught.value.details == ("E: Unable to locate",)


def test_an_answer_without_sha256_is_not_believed(apt: Path) -> None:
    (apt / "uris").write_text("'http://x/pool/a.deb' a_1_all.deb 1 MD5Sum:00\n", encoding="utf-8")
    with pytest.raises(OutsideTrouble, match="no address"):
        resolved()


def test_without_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(OutsideTrouble, match="there is no apt here") as caught:
        resolved()
    assert caught.value.hint


def test_without_a_mirror(apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "apt_archives", list)
    with pytest.raises(OutsideTrouble, match="no archive of Debian") as caught:
        resolve_debs("bookworm", "linux/arm64", [])
    assert "--debian-mirror" in (caught.value.hint or "")

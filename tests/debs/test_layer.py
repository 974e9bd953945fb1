"""The whole layer from tiny packages: recognisable, deterministic, and only what is locked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pipeline.debs.accounts import GROUP_MASTER, PASSWD_MASTER
from pipeline.debs.layer import write_debian_layer
from pipeline.errors import Refusal
from pipeline.oci.files import read_files
from pipeline.oci.index import LayerIndex
from pipeline.oci.tree import Tree

EPOCH = 1767225600


@pytest.fixture
def base(make: Any) -> list[Any]:
    passwd = make.deb(
        [
            make.item(f"./{PASSWD_MASTER}", b"root:*:0:0:root:/root:/bin/bash\n"),
            make.item(f"./{GROUP_MASTER}", b"root:*:0:\n"),
        ],
        name="base-passwd",
        files={"postinst": b"#!/bin/sh\n"},
    )
    tool = make.deb(
        [
            make.directory("./bin"),
            make.item("./bin/tool", b"\x7fELF", 0o755),
            make.directory("./etc"),
            make.item("./etc/tool.conf", b"setting\n"),
        ],
        name="tool",
        control="Multi-Arch: foreign\n",
        files={"conffiles": b"/etc/tool.conf\n", "md5sums": b""},
    )
    return [passwd, tool]


def write(debs: Any, out: Path, **named: Any) -> LayerIndex:
    return write_debian_layer(debs, out, epoch=EPOCH, level=3, **named)


def test_the_layer_is_a_debian_with_its_packages(base: list[Any], tmp_path: Path) -> None:
    index = write(base, tmp_path / "layer")
    tree = Tree.merge([index.entries])
    found = tree.resolve("bin/tool")
    assert found is not None
    assert (found.entry.path, found.entry.mode) == ("usr/bin/tool", 0o755)
    paths = ["etc/passwd", "var/lib/dpkg/status", "var/lib/dpkg/info/tool.list"]
    content = read_files(tmp_path / "layer", index, paths)
    assert content["etc/passwd"] == b"root:x:0:0:root:/root:/bin/bash\n"
    status = content["var/lib/dpkg/status"].decode()
    assert "Package: tool\nStatus: install ok installed\n" in status
    assert "Conffiles:\n /etc/tool.conf " in status
    assert content["var/lib/dpkg/info/tool.list"] == (
        b"/.\n/bin\n/bin/tool\n/etc\n/etc/tool.conf\n"
    )
    assert tree.get("etc/ld.so.cache") is not None


def test_two_runs_and_two_orders_give_the_same_bytes(base: list[Any], tmp_path: Path) -> None:
    one = write(base, tmp_path / "one")
    two = write(list(reversed(base)), tmp_path / "two")
    assert one == two
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sha256": "0" * 64}, "the lock says 0000"),
        ({"version": "2.0"}, r"tool\.deb: is tool 1\.0, not tool 2\.0"),
        ({"name": "other"}, r"tool\.deb: is tool 1\.0, not other 1\.0"),
    ],
)
def test_another_file_than_locked_is_refused(
    base: list[Any], tmp_path: Path, change: dict[str, str], problem: str
) -> None:
    path, locked = base[1]
    with pytest.raises(Refusal, match=problem):
        write([base[0], (path, dataclasses.replace(locked, **change))], tmp_path / "layer")
    assert not (tmp_path / "layer").exists()


def test_another_architecture_is_refused(make: Any, base: list[Any], tmp_path: Path) -> None:
    foreign = make.deb(name="foreign", arch="amd64")
    with pytest.raises(Refusal, match=r"foreign\.deb: is for amd64, not for arm64"):
        write([*base, foreign], tmp_path / "layer")
    for_all = make.deb(name="for-all", arch="all")
    write([*base, for_all], tmp_path / "layer")


def test_a_script_that_nobody_has_read_is_refused(
    make: Any, base: list[Any], tmp_path: Path
) -> None:
    unread = make.deb(name="daemon", files={"postinst": b"#!/bin/sh\nuseradd daemon\n"})
    with pytest.raises(Refusal, match=r"daemon\.deb: daemon has scripts that nothing stands for"):
        write([*base, unread], tmp_path / "layer")


def test_a_missing_conffile_is_refused(make: Any, base: list[Any], tmp_path: Path) -> None:
    faulty = make.deb(name="faulty", files={"conffiles": b"/etc/gone\n"})
    with pytest.raises(Refusal, match=r"faulty\.deb: its conffile /etc/gone is not in it"):
        write([*base, faulty], tmp_path / "layer")


def test_packages_without_base_passwd_are_refused(base: list[Any], tmp_path: Path) -> None:
    with pytest.raises(Refusal, match="no package brings"):
        write(base[1:], tmp_path / "layer")


def test_a_package_that_brings_what_is_made_here_is_refused(
    make: Any, base: list[Any], tmp_path: Path
) -> None:
    rival = make.deb([make.item("./etc/passwd", b"mine")], name="rival")
    with pytest.raises(Refusal, match="etc/passwd: would be in the layer twice"):
        write([*base, rival], tmp_path / "layer")

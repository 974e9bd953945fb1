"""Unpacking: the merged /usr, links, modes, and what two packages must not do to each other."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from pipeline.debs.archive import Deb
from pipeline.debs.unpack import Unpacked, Unpacker, merged
from pipeline.errors import Refusal
from pipeline.oci.index import Entry
from pipeline.oci.layer import LayerWriter

Items = list[tuple[tarfile.TarInfo, bytes]]


class Unpack:
    """Unpacks the packages given by their entries and remembers what came of it."""

    def __init__(self, make: Any, out: Path):
        self.make, self.out = make, out
        self.results: list[Unpacked] = []
        self.links: dict[str, str] = {}

    def __call__(self, *packages: Items) -> dict[str, Entry]:
        with LayerWriter(self.out, epoch=0, level=1) as writer:
            unpacker = Unpacker(writer, lambda path: path == "usr/bin/kept")
            for number, items in enumerate(packages):
                path, locked = self.make.deb(items, name=f"p{number}")
                self.results.append(unpacker.add(locked.name, Deb(path)))
            unpacker.add_merged_links()
            self.links = unpacker.links
            return {entry.path: entry for entry in writer.close().entries}


@pytest.fixture
def unpack(make: Any, tmp_path: Path) -> Unpack:
    return Unpack(make, tmp_path / "layer")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("bin/sh", "usr/bin/sh"),
        ("sbin", "usr/sbin"),
        ("lib/aarch64-linux-gnu/libc.so.6", "usr/lib/aarch64-linux-gnu/libc.so.6"),
        ("lib64/ld.so", "usr/lib64/ld.so"),
        ("usr/lib/x", "usr/lib/x"),
        ("libexec/x", "libexec/x"),
        ("etc/bin/x", "etc/bin/x"),
    ],
)
def test_merged(path: str, place: str) -> None:
    assert merged(path) == place


def test_both_spellings_of_a_directory_become_one(make: Any, unpack: Unpack) -> None:
    entries = unpack(
        [make.directory("./bin"), make.item("./bin/a", b"a", 0o755), make.directory("./lib64")],
        [make.directory("./usr"), make.directory("./usr/bin"), make.item("./usr/bin/b", b"b")],
    )
    assert entries["usr/bin/a"].mode == 0o755
    assert entries["usr/bin/b"].type == "file"
    assert {path: entries[path].link for path in ("bin", "lib", "lib64", "sbin")} == {
        "bin": "usr/bin",
        "lib": "usr/lib",
        "lib64": "usr/lib64",
        "sbin": "usr/sbin",
    }
    assert "lib32" not in entries
    # dpkg's list has the package's own spelling.
    assert unpack.results[0].names == ["", "bin", "bin/a", "lib64"]


def test_hard_links_and_links_keep_their_targets(make: Any, unpack: Unpack) -> None:
    entries = unpack(
        [
            make.item("./bin/perl", b"p", 0o755),
            make.item("./bin/perl5", type=tarfile.LNKTYPE, linkname="./bin/perl"),
            make.symlink("./usr/lib/x", "../../etc/x"),
            make.symlink("./etc/y", "/usr/share/y"),
        ]
    )
    assert entries["usr/bin/perl5"].link == "usr/bin/perl"
    assert entries["usr/lib/x"].link == "../../etc/x"
    assert entries["etc/y"].link == "/usr/share/y"
    assert unpack.links["etc/y"] == "/usr/share/y"


def test_modes_are_the_packages_except_set_gid_for_another_group(make: Any, unpack: Unpack) -> None:
    entries = unpack(
        [
            make.item("./usr/bin/su", b"", 0o4755),
            make.item("./usr/bin/chage", b"", 0o2755, gid=42),
            make.item("./usr/bin/rooted", b"", 0o2755, gid=0),
            make.directory("./tmp", 0o1777),
            make.directory("./root", 0o700),
            make.directory("./var/local", 0o2775, gid=50),
        ]
    )
    modes = {path: oct(entry.mode) for path, entry in entries.items()}
    assert modes["usr/bin/su"] == "0o4755"
    assert modes["usr/bin/chage"] == "0o755"
    assert modes["usr/bin/rooted"] == "0o2755"
    assert modes["tmp"] == "0o1777"
    assert modes["root"] == "0o700"
    assert modes["var/local"] == "0o775"


def test_run_and_lock_are_links(make: Any, unpack: Unpack) -> None:
    entries = unpack([make.directory("./var/run"), make.directory("./var/lock", 0o1777)])
    assert entries["var/run"].link == "/run"
    assert entries["var/lock"].link == "/run/lock"


def test_contents_that_were_asked_for_are_returned(make: Any, unpack: Unpack) -> None:
    unpack([make.item("./bin/kept", b"content"), make.item("./bin/other", b"other")])
    assert unpack.results[0].kept == {"usr/bin/kept": b"content"}


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"name": "../x"}, "leads out of the root"),
        ({"name": "/etc/x"}, "leads out of the root"),
        ({"name": "./a/../../x"}, "leads out of the root"),
        ({"name": "./x", "type": tarfile.SYMTYPE, "linkname": "../x"}, "leads out of the root"),
        ({"name": "./a/x", "type": tarfile.SYMTYPE, "linkname": "b/../../../x"}, "leads out"),
        ({"name": "./a/x", "type": tarfile.SYMTYPE, "linkname": ""}, "leads out of the root"),
        ({"name": "./x", "type": tarfile.LNKTYPE, "linkname": "../y"}, "leads out of the root"),
        (
            {"name": "./x", "type": tarfile.LNKTYPE, "linkname": "./nowhere"},
            "no file of this layer",
        ),
        ({"name": "./dev/sda", "type": tarfile.BLKTYPE}, "neither file, directory nor link"),
        ({"name": "./dev/null", "type": tarfile.CHRTYPE}, "neither file, directory nor link"),
        ({"name": "./fifo", "type": tarfile.FIFOTYPE}, "neither file, directory nor link"),
        ({"name": "./etc/.wh.passwd"}, "whiteouts"),
    ],
)
def test_hostile_entries_are_refused(
    make: Any, unpack: Unpack, entry: dict[str, Any], problem: str
) -> None:
    with pytest.raises(Refusal, match=problem) as caught:
        unpack([make.item(**entry)])
    assert caught.value.message.startswith("p0.deb: ")
    assert not unpack.out.exists()


def test_an_entry_below_a_link_is_refused(make: Any, unpack: Unpack) -> None:
    with pytest.raises(Refusal, match="no directory in this layer"):
        unpack([make.symlink("./etc/a", "/root"), make.item("./etc/a/b", b"")])


@pytest.mark.parametrize("second", [b"one", b"two"])
def test_one_path_in_two_packages_is_refused(make: Any, unpack: Unpack, second: bytes) -> None:
    with pytest.raises(Refusal, match=r"p1\.deb: usr/bin/x is also in p0"):
        unpack([make.item("./bin/x", b"one")], [make.item("./usr/bin/x", second)])


def test_a_file_in_place_of_a_directory_is_refused(make: Any, unpack: Unpack) -> None:
    with pytest.raises(Refusal, match="etc/x is also in p0"):
        unpack([make.directory("./etc/x")], [make.item("./etc/x", b"")])


def test_a_directory_with_two_modes_is_refused(make: Any, unpack: Unpack) -> None:
    with pytest.raises(Refusal, match="etc/x is also in p0"):
        unpack([make.directory("./etc/x", 0o755)], [make.directory("./etc/x", 0o700)])

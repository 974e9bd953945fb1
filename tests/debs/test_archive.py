"""Reading .debs: every compression, and every kind of damage as one refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.debs.archive import Deb, relative
from pipeline.errors import Refusal
from pipeline.oci.tarstream import Member


def contents(path: Path) -> dict[str, bytes]:
    """Return the files of data.tar by name."""
    found: dict[str, bytes] = {}

    def visit(item: Member, stream: BinaryIO | None) -> None:
        if stream is not None:
            found[relative(item.name)] = stream.read()

    Deb(path).walk(visit)
    return found


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
def test_control_and_data_are_read(make: Any, compression: str) -> None:
    data = bytes(range(256)) * 1000
    path, _ = make.deb(
        [make.item("./usr/x", data)], files={"postinst": b"#!/bin/sh\n"}, compression=compression
    )
    assert contents(path) == {"usr/x": data}
    control = Deb(path).control()
    assert sorted(control) == ["control", "postinst"]
    assert control["postinst"] == (0o755, b"#!/bin/sh\n")


def test_names_without_dot_slash_are_the_same(make: Any) -> None:
    path, _ = make.deb([make.item("usr/x", b"1"), make.item("./usr/y", b"2")])
    assert contents(path) == {"usr/x": b"1", "usr/y": b"2"}


@pytest.mark.parametrize("name", ["../etc/passwd", "./usr/../../x", "/etc/passwd"])
def test_a_name_that_leads_out_is_refused(name: str) -> None:
    with pytest.raises(Refusal, match="leads out of the root"):
        relative(name)


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".zst"])
def test_a_file_cut_anywhere_is_refused(make: Any, compression: str) -> None:
    path, _ = make.deb([make.item("./usr/x", b"x" * 5000)], compression=compression)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 53):
        path.write_bytes(whole[:length])
        with pytest.raises(Refusal, match=r"tiny\.deb"):
            Deb(path).control()
            contents(path)


@pytest.mark.parametrize("compression", [".gz", ".xz", ".zst"])
def test_a_compressed_stream_that_ends_early_is_refused(make: Any, compression: str) -> None:
    data = make.compress[compression](make.tar([make.item("./usr/x", b"x" * 5000)]))
    # The ar member is whole, what it holds is not.
    members = [("debian-binary", b"2.0\n"), ("data.tar" + compression, data[:-9])]
    path = make.write(make.ar(members))
    with pytest.raises(Refusal, match="damaged"):
        contents(path)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([], "is no Debian package"),
        ([("data.tar", b"")], "is no Debian package"),
        ([("debian-binary", b"2.0\n")], "0 members named data.tar"),
        ([("debian-binary", b"2.0\n"), ("data.tar", b""), ("data.tar.xz", b"")], "2 members named"),
        ([("debian-binary", b"2.0\n"), ("data.tar.bz2", b"")], "a way that is not known"),
        ([("debian-binary", b"2.0\n"), ("data.tar.xz", b"no xz")], "damaged"),
        ([("debian-binary", b"2.0\n"), ("data.tar", b"no tar" * 200)], "damaged"),
    ],
)
def test_what_is_no_package_is_refused(make: Any, members: Any, problem: str) -> None:
    path = make.write(make.ar(members))
    with pytest.raises(Refusal, match=problem):
        contents(path)


def test_what_is_no_ar_archive_is_refused(make: Any) -> None:
    with pytest.raises(Refusal, match="no ar archive"):
        contents(make.write(b"PK\x03\x04 something else"))


def test_a_broken_ar_size_is_refused(make: Any) -> None:
    data = make.ar([("debian-binary", b"2.0\n")]).replace(b"4         `", b"-4        `")
    with pytest.raises(Refusal, match="broken ar header at byte 8"):
        contents(make.write(data))


@pytest.mark.parametrize(
    "entry", [("./sub/control", b""), ("../control", b""), ("./big", b"x" * (17 * 1024 * 1024))]
)
def test_a_control_tar_with_more_than_control_files_is_refused(make: Any, entry: Any) -> None:
    control = make.tar([make.item(*entry)])
    path = make.write(make.ar([("debian-binary", b"2.0\n"), ("control.tar", control)]))
    with pytest.raises(Refusal, match=r"tiny\.deb"):
        Deb(path).control()


def test_a_control_tar_without_control_is_refused(make: Any) -> None:
    control = make.tar([make.item("./postinst", b"")])
    path = make.write(make.ar([("debian-binary", b"2.0\n"), ("control.tar", control)]))
    with pytest.raises(Refusal, match="no file named control"):
        Deb(path).control()


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None
)
@given(st.data())
def test_a_changed_byte_gives_a_result_or_a_refusal(make: Any, data: st.DataObject) -> None:
    compression = data.draw(st.sampled_from(["", ".gz", ".xz", ".zst"]))
    path, _ = make.deb([make.item("./usr/x", b"abc" * 500)], compression=compression)
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    path.write_bytes(raw)
    try:
        Deb(path).control()
        contents(path)
    except Refusal:
        pass

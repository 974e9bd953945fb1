"""Tar headers: what `tarfile` reads back is what was meant."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.oci.header import BLOCK, tar_header

NAMES = st.lists(
    st.text("aZ0._- ü漢", min_size=1, max_size=120).filter(lambda part: part not in (".", "..")),
    min_size=1,
    max_size=5,
).map("/".join)


def read(data: bytes) -> tarfile.TarInfo:
    with tarfile.open(fileobj=io.BytesIO(data + bytes(2 * BLOCK))) as tar:
        member = tar.next()
    assert member is not None
    return member


@given(
    name=NAMES,
    link=st.just("") | NAMES,
    mode=st.integers(0, 0o7777),
    size=st.integers(0, 2**40),
    mtime=st.integers(0, 8**11 - 1),
)
def test_any_entry_is_read_back(name: str, link: str, mode: int, size: int, mtime: int) -> None:
    kind = tarfile.SYMTYPE if link else tarfile.REGTYPE
    data = tar_header(name, kind, mode=mode, size=0 if link else size, mtime=mtime, link=link)
    assert len(data) % BLOCK == 0
    member = read(data)
    assert (member.name, member.linkname, member.mode, member.mtime) == (name, link, mode, mtime)
    assert member.size == (0 if link else size)
    assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("a" * 100, 1),
        ("a" * 101, 3),  # one part: no place to cut for the prefix field
        ("p" * 155 + "/" + "a" * 100, 1),
        ("p" * 156 + "/" + "a" * 99, 3),
        ("p" * 154 + "/" + "a" * 101, 3),
        ("p/" * 77 + "a" * 100, 1),
        ("ü", 3),
    ],
)
def test_pax_records_only_for_what_does_not_fit(name: str, blocks: int) -> None:
    data = tar_header(name, tarfile.REGTYPE, mode=0o644, mtime=0)
    assert len(data) == blocks * BLOCK
    assert read(data).name == name


def test_a_directory_ends_in_a_slash_as_tar_has_it() -> None:
    data = tar_header("a/b", tarfile.DIRTYPE, mode=0o755, mtime=0)
    assert data.startswith(b"a/b/\0")
    assert read(data).isdir()
    long = "d" * 99
    assert len(tar_header(long, tarfile.DIRTYPE, mode=0o755, mtime=0)) == BLOCK
    assert read(tar_header(long + "d", tarfile.DIRTYPE, mode=0o755, mtime=0)).name == long + "d"


def test_short_entries_are_what_tarfile_writes() -> None:
    info = tarfile.TarInfo("usr/bin/x")
    info.mode, info.mtime, info.size = 0o755, 1767225600, 12345
    expected = info.tobuf(tarfile.USTAR_FORMAT)
    assert tar_header("usr/bin/x", tarfile.REGTYPE, mode=0o755, mtime=1767225600, size=12345) == (
        expected
    )


def test_no_surrogates() -> None:
    with pytest.raises(UnicodeEncodeError):
        tar_header("\udcff", tarfile.REGTYPE, mode=0o644, mtime=0)

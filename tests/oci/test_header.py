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


@pytest.mark.parametrize(
    ("size", "link", "blocks"),
    [
        (0, "l" * 100, 1),
        (0, "l" * 101, 3),
        (8**11 - 1, "", 1),  # eleven octal digits
        (8**11, "", 3),
        (8**11 - 1, "l" * 101, 3),
        (8**11, "l" * 101, 3),  # two records of one extended header
    ],
)
def test_the_largest_that_fits(size: int, link: str, blocks: int) -> None:
    kind = tarfile.SYMTYPE if link else tarfile.REGTYPE
    data = tar_header("name", kind, mode=0o644, size=size, mtime=1, link=link)
    assert len(data) == blocks * BLOCK
    if not link or not size:
        assert (read(data).size, read(data).linkname) == (size, link)
    else:
        assert b" linkpath=" in data and (b" size=" in data) is (size == 8**11)


def test_a_link_that_fits_beside_a_name_that_does_not() -> None:
    data = tar_header("n" * 101, tarfile.SYMTYPE, mode=0o777, mtime=0, link="l" * 100)
    assert b" path=" in data and b" linkpath=" not in data
    assert (read(data).linkname, read(data).size) == ("l" * 100, 0)


def test_what_a_pax_header_holds_to_the_byte() -> None:
    """The fields of the entry itself are what a reader without pax sees: cut, and no size."""
    name, link = "d/" * 20 + "n" * 101, "ü" + "l" * 101
    data = tar_header(name, tarfile.SYMTYPE, mode=0o755, size=8**11, mtime=1, link=link)
    records = f"151 path={name}\n117 linkpath={link}\n19 size={8**11}\n".encode()
    assert data[BLOCK : BLOCK + len(records)] == records
    entry = data[2 * BLOCK :]
    assert entry[:100] == name[:100].encode()
    assert entry[157:257] == b"?" + b"l" * 99
    assert entry[124:136] == b"00000000000\0"


def test_a_name_is_cut_at_its_first_slash_that_leaves_enough() -> None:
    name = "a/b/" + "c" * 90 + "/" + "d" * 40
    data = tar_header(name, tarfile.REGTYPE, mode=0o644, mtime=0)
    assert data[:100].rstrip(b"\0") == b"d" * 40
    assert data[345:500].rstrip(b"\0") == b"a/b/" + b"c" * 90
    name = "ab/" + "c" * 50 + "/" + "d" * 49
    data = tar_header(name, tarfile.REGTYPE, mode=0o644, mtime=0)
    assert data[345:500].rstrip(b"\0") == b"ab"
    assert len(tar_header("p" * 150 + "/d", tarfile.REGTYPE, mode=0o644, mtime=0)) == BLOCK
    # A prefix of one letter is one; an empty one, of a name that begins with a slash, is none.
    assert len(tar_header("a/" + "d" * 100, tarfile.REGTYPE, mode=0o644, mtime=0)) == BLOCK
    assert len(tar_header("/" + "d" * 100, tarfile.REGTYPE, mode=0o644, mtime=0)) == 3 * BLOCK
    # The slash that ends a directory's name is no place to cut.
    assert len(tar_header("d" * 100, tarfile.DIRTYPE, mode=0o755, mtime=0)) == 3 * BLOCK

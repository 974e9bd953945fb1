"""Tars as a stream: members end where they end, and every limit is where it is said to be."""

from __future__ import annotations

import io
import tarfile
from typing import BinaryIO, cast

import pytest

from pipeline.oci import tarstream
from pipeline.oci.header import tar_header
from pipeline.oci.tarstream import TarFault, read_tar
from tests.oci.makelayer import file, tar

PLAIN = tar([file("a", "0123456789"), file("b", "next")])


def test_pieces_of_any_size() -> None:
    member, stream = next(read_tar(io.BytesIO(PLAIN)))
    assert member.size == 10 and stream is not None and stream.readable()
    assert (stream.read(0), stream.read(4), stream.read(1)) == (b"", b"0123", b"4")
    assert (stream.read(100), stream.read(1), stream.read()) == (b"56789", b"", b"")


@pytest.mark.parametrize("size", [-1, 10, 11])
def test_all_at_once(size: int) -> None:
    _, stream = next(read_tar(io.BytesIO(PLAIN)))
    assert stream is not None and stream.read(size) == b"0123456789"


def test_what_was_not_read_is_stepped_over() -> None:
    names = []
    for member, stream in read_tar(io.BytesIO(PLAIN)):
        assert stream is not None
        names.append((member.name, stream.read(2)))
    assert names == [("a", b"01"), ("b", b"ne")]


def test_as_a_raw_stream_in_a_buffer() -> None:
    _, stream = next(read_tar(io.BytesIO(PLAIN)))
    buffer = bytearray(b"-" * 12)
    assert isinstance(stream, io.RawIOBase) and stream.readinto(buffer) == 10
    assert buffer == b"0123456789--" and stream.readinto(buffer) == 0
    _, stream = next(read_tar(io.BytesIO(PLAIN)))
    assert io.BufferedReader(stream, 3).read() == b"0123456789"  # type: ignore[arg-type]


END = bytes(1024)
ONE = tar_header("one", tarfile.REGTYPE, mode=0o644, mtime=0)


def extended(data: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    """An extended header with this data."""
    head = tar_header("x", kind, mode=0o644, size=len(data), mtime=0)
    return head + data + bytes(-len(data) % 512)


def names(data: bytes) -> list[str]:
    return [member.name for member, _ in read_tar(io.BytesIO(data))]


class Trickle(io.RawIOBase):
    """A stream that cannot seek and gives a few bytes at a time."""

    def __init__(self, data: bytes, step: int):
        self._inner, self._step = io.BytesIO(data), step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._inner.read(min(len(buffer), self._step))
        buffer[: len(data)] = data
        return len(data)


@pytest.mark.parametrize("step", [1, 2, 7, 300, 511, 512])
def test_a_stream_that_gives_less_than_it_is_asked_for(step: int) -> None:
    found = [
        (member.name, member.offset, stream.read() if stream else b"")
        for member, stream in read_tar(cast(BinaryIO, Trickle(PLAIN, step)))
    ]
    assert found == [("a", 512, b"0123456789"), ("b", 1536, b"next")]
    with pytest.raises(TarFault, match="ends inside"):
        list(read_tar(cast(BinaryIO, Trickle(PLAIN[:700], step))))
    with pytest.raises(TarFault, match="it is empty"):
        list(read_tar(cast(BinaryIO, Trickle(b"", step))))


@pytest.mark.parametrize("size", [1, 512, 513, 1024, 5000])
@pytest.mark.parametrize("seek", [True, False])
def test_data_that_ends_with_the_file(seek: bool, size: int) -> None:
    head = tar_header("a", tarfile.REGTYPE, mode=0o644, size=size, mtime=0)

    def read(data: bytes) -> list[str]:
        source = io.BytesIO(data) if seek else cast(BinaryIO, Trickle(data, 4096))
        return [member.name for member, _ in read_tar(source)]

    whole = head + bytes(-(-size // 512) * 512)
    assert read(whole) == ["a"]  # the end mark is missed by nobody
    for short in (1, size % 512 or 512, len(whole) - 512):
        with pytest.raises(TarFault, match="ends inside an entry"):
            read(whole[:-short])


def test_entries_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tarstream, "MAX_ENTRIES", 3)
    assert names(3 * ONE + END) == ["one"] * 3
    with pytest.raises(TarFault, match="more than 3 entries"):
        names(4 * ONE + END)


def test_extended_headers_are_counted_for_each_entry() -> None:
    record = extended(b"11 mtime=1\n")
    assert names(2 * (16 * record + ONE) + END) == ["one", "one"]
    with pytest.raises(TarFault, match="without end"):
        names(17 * record + ONE + END)


@pytest.mark.parametrize("end", [b"", END])
def test_an_extended_header_has_an_entry(end: bytes) -> None:
    with pytest.raises(TarFault, match="an extended header has no entry"):
        names(ONE + extended(b"11 mtime=1\n") + end)


def test_the_largest_extended_header() -> None:
    limit = 1024 * 1024
    assert names(extended(b"n" * limit, b"L") + ONE + END) == ["n" * limit]
    with pytest.raises(TarFault, match=f"declares {limit + 1} bytes"):
        names(extended(b"n" * (limit + 1), b"L") + ONE + END)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"12 path=a=b\n", "a=b"),  # the key ends at the first one
        (b"14 path=a b c\n", "a b c"),
        (b"10 path=x\n10 path=y\n", "y"),
        (b"0000010 path=x\n"[:7] + b" path=x\n", None),  # says 10, and is longer
        (b"10 path=x\nrest", None),
        (b"9 path=x\n", "x"),
        (b"8 path=x\n", None),
        (b"11 path=x\n", None),
        (b"10 pathxx\n", None),
        (b"10 path=xy", None),
        (b"10path=xx\n", None),
        (b"-1 path=x\n", None),
        (b"0", None),
        (b"0000015 path=x\n", "x"),
        (b"00000016 path=x\n", None),  # a length has seven digits at most
        (b"1_1 path=x\n", None),  # what Python takes for a number is no length
        (b"+11 path=x\n", None),
        (b"x path=x\n", None),
        (b"99999999 path=x\n", None),
    ],
)
def test_pax_headers(data: bytes, name: str | None) -> None:
    if name is not None:
        assert names(extended(data) + ONE + END) == [name]
        return
    with pytest.raises(TarFault, match="a pax header holds no records"):
        names(extended(data) + ONE + END)


def test_a_link_in_a_record_is_whole() -> None:
    link = tar_header("l", tarfile.SYMTYPE, mode=0o777, mtime=0, link="x")
    with pytest.raises(TarFault, match="a name holds a NUL"):
        names(extended(b"16 linkpath=a\0b\n") + link + END)


def test_checksums_of_old_programs_are_sums_of_signed_bytes() -> None:
    head = bytearray(ONE)
    head[0:3] = b"\x7f\x80\x81"
    head[148:156] = b" " * 8
    signed = sum(head) - 2 * 256
    head[148:156] = b"%06o\0 " % signed
    assert len(names(bytes(head) + END)) == 1
    head[148:156] = b"%06o\0 " % (signed + 1)
    with pytest.raises(TarFault, match="wrong checksum"):
        names(bytes(head) + END)


def raw(**fields: bytes) -> bytes:
    """A header block of these fields, each as it stands, and a checksum of eight digits."""
    places = {
        "name": 0, "mode": 100, "uid": 108, "gid": 116, "size": 124, "mtime": 136, "kind": 156,
        "link": 157, "magic": 257, "prefix": 345, "rest": 500,
    }  # fmt: skip
    head = bytearray(512)
    for place in (100, 108, 116, 124, 136):
        head[place : place + 2] = b"0\0"
    head[156:157] = b"0"
    for name, data in fields.items():
        head[places[name] : places[name] + len(data)] = data
    head[148:156] = b" " * 8
    head[148:156] = b"%08o" % sum(head)
    return bytes(head)


def only(data: bytes) -> tarstream.Member:
    ((member, _),) = read_tar(io.BytesIO(data + END))
    return member


def test_fields_that_are_full_to_the_last_byte() -> None:
    found = only(
        raw(
            name=b"n" * 100,
            mode=b"00017755",
            uid=b"10000001",
            gid=b"20000002",
            size=b"100000000003",
            mtime=b"200000000004",
            kind=b"2",
            link=b"l" * 100,
            magic=b"ustar\x0000",
            prefix=b"p" * 155,
            rest=b"rest",
        )
    )
    assert found[:5] == ("p" * 155 + "/" + "n" * 100, b"2", 0o7755, 0o10000001, 0o20000002)
    assert (found.size, found.mtime, found.link) == (0, 0o200000000004, "l" * 100)
    found = only(raw(name=b"n", magic=b"ustar  \0", prefix=b"no name: GNU keeps times here"))
    assert found.name == "n"
    member, stream = next(read_tar(io.BytesIO(raw(size=b"000000000003") + b"abc" + bytes(509))))
    assert member.size == 3 and stream is not None and stream.read() == b"abc"


def test_numbers_below_zero() -> None:
    minus = (-5).to_bytes(8, "big", signed=True)
    found = only(raw(name=b"n", uid=minus, gid=minus, mtime=(-5).to_bytes(12, "big", signed=True)))
    assert (found.uid, found.gid, found.mtime) == (-5, -5, -5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"\0" * 12, 0),
        (b"  7\0" + b"1" * 8, 7),
        (b"\x80" + bytes(9) + b"\x01\x02", 258),
        (b"\x80\x01" + bytes(10), 256**10),
    ],
)
def test_numbers(field: bytes, value: int) -> None:
    assert only(raw(name=b"n", mtime=field)).mtime == value


@pytest.mark.parametrize(
    ("name", "kind", "read"),
    [
        (b"d/", b"\0", b"5"),  # a directory of the oldest tars
        (b"f", b"\0", b"0"),
        (b"f/", b"0", b"0"),
    ],
)
def test_a_directory_of_old_tars(name: bytes, kind: bytes, read: bytes) -> None:
    assert only(raw(name=name, kind=kind)).type == read


def test_what_an_extended_header_says_counts() -> None:
    records = extended(b"16 linkpath=new\n11 mtime=9\n")
    found = only(records + raw(name=b"n", kind=b"2", link=b"old", mtime=b"1\0"))
    assert (found.link, found.mtime) == ("new", 9)


@pytest.mark.parametrize("name", ["plain", "n\xe4me"])
def test_checksums_as_their_writers_spell_them(name: str) -> None:
    header = bytearray(tar([file(name)], tarfile.GNU_FORMAT)[:512])
    total = sum(header[:148]) + sum(header[156:]) + 8 * 0x20
    signed = total - 256 * sum(byte >= 0x80 for byte in header)
    spelled = (f"{total:06o}\0 ", f"{total:07o}\0", f" {total:o} \0", f"{signed:06o}\0 ")
    binary = [(1 << 63 | number).to_bytes(8, "big") for number in (total, signed)]
    for said in (*(text.encode() for text in spelled), *binary):
        header[148:156] = said.ljust(8, b"\0")
        assert names(bytes(header) + END) == [name]
    for wrong in (total + 1, total - 1, total + 65521, 0):
        header[148:156] = f"{wrong:07o}\0".encode()
        with pytest.raises(TarFault, match="wrong checksum"):
            names(bytes(header) + END)


def test_a_header_of_high_bytes_has_a_checksum_too() -> None:
    found = only(raw(name=b"\xff" * 100, link=b"\xff" * 100, prefix=b"\xff" * 155))
    assert found.name == "\udcff" * 100


def test_what_has_no_data_has_no_stream() -> None:
    made = [raw(name=b"d", kind=b"5"), raw(name=b"l", kind=b"2", link=b"d"), raw(name=b"f")]
    streams = [stream for _, stream in read_tar(io.BytesIO(b"".join(made) + END))]
    assert [stream is None for stream in streams] == [True, True, False]


def test_half_an_end_is_followed_by_its_other_half() -> None:
    with pytest.raises(TarFault, match="something follows the first half of its end"):
        names(ONE + bytes(512) + ONE + END)
    assert names(ONE + bytes(512)) == ["one"]


def test_a_prefix_of_one_letter() -> None:
    assert only(raw(name=b"n", magic=b"ustar\x0000", prefix=b"p")).name == "p/n"


@pytest.mark.parametrize("kind", [b"x", b"g"])
def test_what_no_extended_header_speaks_of_stays(kind: bytes) -> None:
    records = extended(b"11 mtime=9\n13 comment=x\n", kind)
    found = only(records + raw(name=b"n", kind=b"2", link=b"l", mtime=b"1\0"))
    assert (found.name, found.link, found.mtime) == ("n", "l", 9 if kind == b"x" else 1)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (b"10 path=x\n", "one path"),
        (b"14 linkpath=x\n", "one linkpath"),
        (b"10 size=0\n", "one size"),
    ],
)
def test_what_a_global_header_must_not_say(record: bytes, words: str) -> None:
    with pytest.raises(TarFault, match=f"a global pax header gives every entry {words}"):
        names(extended(record, b"g") + ONE + END)


def test_sparse_files_of_either_form() -> None:
    record = b"22 GNU.sparse.major=1\n"
    for data in (extended(record), extended(record, b"g"), raw(name=b"s", kind=b"S")):
        with pytest.raises(TarFault, match="a sparse file, which no layer needs"):
            names(data + ONE + END)


def test_a_long_link_as_gnu_tar_writes_it() -> None:
    long = b"l" * 200
    found = only(extended(long + b"\0", b"K") + raw(name=b"n", kind=b"2", link=long[:100]))
    assert (found.name, found.link) == ("n", "l" * 200)


def test_a_name_in_a_record_is_whole() -> None:
    with pytest.raises(TarFault, match="a name holds a NUL"):
        names(extended(b"12 path=a\0b\n") + ONE + END)


def pax(key: str, value: str) -> bytes:
    """An extended header of one record."""
    rest = f" {key}={value}\n"
    length = next(n for n in range(200) if len(str(n)) + len(rest) == n)
    return extended(f"{length}{rest}".encode())


@pytest.mark.parametrize("size", ["3", "0" * 18 + "3"])
def test_a_size_in_a_record_counts(size: str) -> None:
    data = pax("size", size) + raw(name=b"n") + b"abc" + bytes(509)
    member, stream = next(read_tar(io.BytesIO(data + END)))
    assert member.size == 3 and stream is not None and stream.read() == b"abc"


@pytest.mark.parametrize("value", ["", "x", "-1", "+1", "1.5", "0" * 20, "9" * 50, "x" * 50])
def test_sizes_that_are_none(value: str) -> None:
    with pytest.raises(TarFault) as caught:
        names(pax("size", value) + ONE + END)
    assert str(caught.value) == f"a pax header has {value[:32].encode()!r} as its size"


@pytest.mark.parametrize(
    ("value", "time"), [("-5", -5), ("5.75", 5), ("-5.", -5), ("0" * 18 + "7", 7), ("-0.5", 0)]
)
def test_times(value: str, time: int) -> None:
    assert only(pax("mtime", value) + raw(name=b"n")).mtime == time


@pytest.mark.parametrize("value", ["", "x", "5-", "--5", "+5", ".5", "0" * 20, "9" * 50, "x" * 50])
def test_times_that_are_none(value: str) -> None:
    with pytest.raises(TarFault) as caught:
        names(pax("mtime", value) + ONE + END)
    assert str(caught.value) == f"a pax header has {value[:32].encode()!r} as its mtime"


@pytest.mark.parametrize(
    ("field", "value"), [(bytes(12), 0), (b" " * 12, 0), (b"0 \0", 0), (b"\x80" + bytes(11), 0)]
)
def test_a_size_of_nothing_however_it_is_spelt(field: bytes, value: int) -> None:
    assert only(raw(name=b"n", size=field)).size == value


@pytest.mark.parametrize("field", [b"9\0", b"8\0", b"1x\0", b"-1\0", b"1 1\0"])
def test_numbers_that_are_none(field: bytes) -> None:
    with pytest.raises(TarFault, match=r"a header has b'.*' as its size"):
        names(raw(name=b"n", size=field) + END)


def test_what_cannot_be_below_zero() -> None:
    for name, width in (("size", 12), ("mode", 8)):
        minus = (-5).to_bytes(width, "big", signed=True)
        with pytest.raises(TarFault, match=f"a header has a negative {name}"):
            names(raw(**{name: minus}) + END)


def test_what_nobody_reads_of_a_file_is_jumped_over() -> None:
    read_sizes: list[int] = []

    class Watched(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            data = super().read(size)
            read_sizes.append(len(data))
            return data

    data = tar([file("a", bytes(3_000_000)), file("b", bytes(100))])
    assert [member.name for member, _ in read_tar(Watched(data))] == ["a", "b"]
    assert sum(read_sizes) < 5 * 512 + 1

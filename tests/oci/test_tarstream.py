"""The stream of one member: it ends where the member ends, however it is read."""

from __future__ import annotations

import io

import pytest

from pipeline.oci.tarstream import read_tar
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

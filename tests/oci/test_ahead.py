"""Bytes that threads fetch and hash ahead: in order, whole, with their errors in their place."""

from __future__ import annotations

import hashlib
import io
import random
import threading
import time
from collections.abc import Callable

import pytest

from pipeline.oci.ahead import Ahead
from pipeline.oci.tarstream import TarFault, members
from tests.oci.makelayer import file, tar

DATA = random.Random(3).randbytes(50_000)


class Trickle:
    """Fills at most `step` bytes of a buffer; fails at its end, if it has an error for that."""

    def __init__(self, data: bytes, step: int, error: Exception | None = None):
        self._inner, self._step, self._error = io.BytesIO(data), step, error

    def readinto(self, buffer: memoryview, /) -> int:
        size = self._inner.readinto(buffer[: self._step])
        if not size and self._error is not None:
            raise self._error
        return size


def ahead(data: bytes = DATA, step: int = 700, ended: Callable[[], None] = lambda: None) -> Ahead:
    return Ahead(Trickle(data, step), ended, unit=1024, units=3)


@pytest.mark.parametrize("step", [1, 511, 1024, 5000])
def test_all_bytes_come_in_their_order_however_they_are_asked_for(step: int) -> None:
    chance = random.Random(step)
    with ahead(step=step) as source:
        found = bytearray()
        while len(found) < len(DATA):
            size = chance.randrange(1, 3000)
            kind = chance.randrange(3)
            if kind == 0:
                found += source.upto(size)
            elif kind == 1:
                found += source.take(size)
            else:
                size = min(size, len(DATA) - len(found))
                source.skip(size)
                found += DATA[len(found) : len(found) + size]
            assert source.position == len(found)
        assert found == DATA
        assert (source.upto(1), bytes(source.take(1))) == (b"", b"")
        source.drain()
    assert (source.count, source.sha256.digest()) == (len(DATA), hashlib.sha256(DATA).digest())


def test_what_nobody_looks_at_is_hashed_too() -> None:
    with ahead() as source:
        assert source.exactly(5) == DATA[:5]
        source.drain()
    assert (source.count, source.sha256.digest()) == (len(DATA), hashlib.sha256(DATA).digest())


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025, 5000])
def test_more_than_there_is(size: int) -> None:
    with ahead(DATA[:size]) as source, pytest.raises(TarFault, match="ends inside"):
        source.exactly(size + 1)
    with ahead(DATA[:size]) as source, pytest.raises(TarFault, match="ends inside"):
        source.skip(size + 1)


def test_an_error_is_raised_where_the_bytes_before_it_have_been_read() -> None:
    with Ahead(Trickle(DATA[:2048], 700, ValueError("broken")), unit=1024, units=3) as source:
        assert source.upto(2048) == DATA[:2048]
        with pytest.raises(ValueError, match="broken"):
            source.take(1)

    def refuse() -> None:
        raise ValueError("not whole")

    with ahead(ended=refuse) as source, pytest.raises(ValueError, match="not whole"):
        source.drain()


def test_whoever_leaves_early_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    for size in (0, 10, 5000):
        with ahead() as source:
            source.upto(size)
    assert threading.active_count() == before


def test_a_tar_is_read_across_the_buffers() -> None:
    items = [file(f"{number}", DATA[: number * 333]) for number in range(20)]
    with ahead(tar(items)) as source:
        found = [(one.name, source.exactly(one.size)) for one in members(source)]
    assert found == [(item.name, item.data) for item in items]
    with ahead(tar(items)[:3000]) as source, pytest.raises(TarFault, match="ends inside an entry"):
        list(members(source))


@pytest.mark.parametrize("left", [0, 1, 2])
def test_a_buffer_of_which_little_is_left(left: int) -> None:
    """What is asked for whole comes whole; what is asked for in any size ends with the buffer."""
    with ahead() as source:
        assert source.upto(1024 - left) == DATA[: 1024 - left]
        assert source.upto(5) == DATA[1024 - left :][:5]
        source.drain()
    with ahead() as source:
        source.skip(1024 - left)
        assert bytes(source.take(0)) == b"" and source.position == 1024 - left
        assert bytes(source.take(5)) == DATA[1024 - left :][: left or 5]
        source.drain()


def test_all_bytes_are_hashed_as_soon_as_it_is_drained() -> None:
    class Slow:
        def __init__(self) -> None:
            self.inner = hashlib.sha256()

        def update(self, data: memoryview) -> None:
            time.sleep(0.02)
            self.inner.update(data)

        def digest(self) -> bytes:
            return self.inner.digest()

    source = ahead(DATA[:5000])
    source.sha256 = Slow()  # type: ignore[assignment]
    with source:
        source.drain()
        assert (source.count, source.sha256.digest()) == (
            5000,
            hashlib.sha256(DATA[:5000]).digest(),
        )


def test_after_an_error_comes_nothing_more() -> None:
    found: list[bytes] = []

    def look() -> None:
        with Ahead(Trickle(b"", 700, ValueError("broken")), unit=1024, units=3) as source:
            with pytest.raises(ValueError, match="broken"):
                source.take(1)
            found.append(source.upto(5))
            source.drain()

    looks = threading.Thread(target=look, daemon=True)
    looks.start()
    looks.join(30)  # it must not wait for what never comes
    assert found == [b""] and not looks.is_alive()

"""Where two versions of a file differ."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.patching.hunks import find_hunks
from tests.examples import examples

LINES = st.lists(st.sampled_from(["a\n", "b = 1\n", "\n", "é\r\n", "c\r", "d"]), max_size=12)


def made(old: bytes, new: bytes) -> bytes:
    out, position = [], 0
    for hunk in find_hunks(old, new):
        assert hunk.span[0] < hunk.span[1] or hunk.text
        assert position <= hunk.span[0] or not position
        out += [old[position : hunk.span[0]], hunk.text]
        position = hunk.span[1]
    return b"".join([*out, old[position:]])


@settings(max_examples=examples(400), deadline=None)
@given(LINES, LINES)
def test_hunks_make_the_new_text(old: list[str], new: list[str]) -> None:
    one, other = "".join(old).encode(), "".join(new).encode()
    assert made(one, other) == other


def test_changes_apart_are_hunks_apart() -> None:
    old = b"a = 1\nsame\nb = 2\n"
    hunks = find_hunks(old, b"a = 3\nsame\nb = 4\n")
    assert [(old[slice(*h.span)], h.text) for h in hunks] == [(b"1", b"3"), (b"2", b"4")]


def test_equal_texts_have_none() -> None:
    assert find_hunks(b"x\n", b"x\n") == []


@pytest.mark.parametrize("line", [b"x = 1\n", b"\n"])
def test_large_and_monotonous(line: bytes) -> None:
    old = line * 300_000
    new = old[:600_000] + b"here\n" + old[600_000:] if len(line) > 1 else line * 299_999
    began = time.process_time()
    assert made(old, new) == new
    assert time.process_time() - began < 5


def test_thousands_of_changes() -> None:
    old = b"".join(b"value_%d = %d\n" % (n, n) for n in range(20_000))
    new = b"".join(b"value_%d = %d\n" % (n, n + n % 2) for n in range(20_000))
    began = time.process_time()
    assert made(old, new) == new
    assert time.process_time() - began < 5

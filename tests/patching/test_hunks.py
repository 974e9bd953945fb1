"""Where two versions of a file differ."""

from __future__ import annotations

import time
from itertools import combinations, pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.patching import hunks
from pipeline.patching.hunks import Hunk, _once_in_both, find_hunks
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


def changed(old: bytes, new: bytes) -> list[tuple[bytes, bytes]]:
    return [(old[slice(*hunk.span)], hunk.text) for hunk in find_hunks(old, new)]


def filler(size: int, fill: bytes) -> bytes:
    """Whole lines of so many bytes."""
    line = fill * 7 + b"\n"
    return (line * (size // 8 + 1))[-size:] if size else b""


@pytest.mark.parametrize("size", [0, 1, 40, 65_535, 65_536, 65_537, 131_072, 200_000])
@pytest.mark.parametrize("beside", [0, 70_000])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"one = 12\n", b"two = 22\n"),  # which end alike, as the lines around them
        (b"", b"two = 22\n"),
        (b"one = 12\n", b""),
        (b"\n", b"two\n"),
        (b"two\n", b"\n"),
    ],
)
def test_only_lines_that_changed_are_compared(
    monkeypatch: pytest.MonkeyPatch, size: int, beside: int, before: bool, old: bytes, new: bytes
) -> None:
    """What is equal around them costs nothing, also where it is longer than one read."""
    compared: list[tuple[list[bytes], list[bytes]]] = []
    real = hunks._changes

    def watched(a: list[bytes], b: list[bytes]) -> object:
        compared.append((a, b))
        return real(a, b)

    monkeypatch.setattr(hunks, "_changes", watched)
    sizes = (size, beside) if before else (beside, size)
    head, tail = filler(sizes[0], b"h"), filler(sizes[1], b"t")
    assert made(head + old + tail, head + new + tail) == head + new + tail
    assert compared == [(old.splitlines(keepends=True), new.splitlines(keepends=True))]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"x\n", b"yx\n", [(b"x", b"yx")]),  # a word that grew at its head
        (b"yx\n", b"x\n", [(b"yx", b"x")]),
        (b"one x", b"two x", [(b"one", b"two")]),  # a last line without an end
        (b"x = 1", b"x = 1\n", [(b"", b"\n")]),
        (b"\nab\n", b"\nac\n", [(b"ab", b"ac")]),
        (b"a\n", b"b\na\n", [(b"", b"b\n")]),
        (b"b\na\n", b"a\n", [(b"b\n", b"")]),
        (b"", b"a\n", [(b"", b"a\n")]),
        (b"a\n", b"", [(b"a\n", b"")]),
        (b"a\r\n", b"a\n", [(b"\r\n", b"\n")]),
    ],
)
def test_a_hunk_is_what_a_reader_would_mark(
    old: bytes, new: bytes, expected: list[tuple[bytes, bytes]]
) -> None:
    assert changed(old, new) == expected


def test_lines_that_stand_once_are_matched_before_longer_runs_of_common_ones() -> None:
    old = b"1\nunlike\n\n\n\n2\n"
    new = b"3\n\n\n\nunlike\n4\n"
    assert changed(old, new) == [(b"1", b"3\n\n\n"), (b"\n\n\n2", b"4")]


def test_common_lines_are_matched_however_many_they_are() -> None:
    same = b"pass\n" * 300
    old, new = b"1\n" + same + b"2\n", b"3\n" + same + b"4\n"
    assert changed(old, new) == [(b"1", b"3"), (b"2", b"4")]


def test_too_many_lines_without_a_match_are_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = b"1\nx\nx\n2\n", b"3\nx\nx\n4\n"
    monkeypatch.setattr(hunks, "_MOST_PAIRS", 16)
    assert changed(old, new) == [(b"1", b"3"), (b"2", b"4")]
    monkeypatch.setattr(hunks, "_MOST_PAIRS", 15)
    assert changed(old, new) == [(b"1\nx\nx\n2", b"3\nx\nx\n4")]


def test_two_hunks_as_one_hold_what_stands_between_them() -> None:
    old = b"a = 1\nsame\nb = 2\n"
    first, second = find_hunks(old, b"a = 3\nsame\nb = 4\n")
    assert first.joined(second, old) == Hunk((4, 16), b"3\nsame\nb = 4")


def longest(a: list[bytes], b: list[bytes]) -> int:
    """How many lines stand once in both texts and in one order, at most."""
    where = [b.index(x) for x in a if a.count(x) == b.count(x) == 1]
    orders = (list(c) for n in range(len(where), -1, -1) for c in combinations(where, n))
    return len(next(order for order in orders if order == sorted(order)))


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.integers(0, 9), max_size=9).map(lambda a: [b"%d" % n for n in a]),
    st.lists(st.integers(0, 9), max_size=9).map(lambda a: [b"%d" % n for n in a]),
)
def test_lines_that_stand_once_in_both_are_matched_in_order(a: list[bytes], b: list[bytes]) -> None:
    pairs = _once_in_both(a, b)
    assert all(i1 < i2 and j1 < j2 for (i1, j1), (i2, j2) in pairwise(pairs))
    assert all(a[i] == b[j] and a.count(a[i]) == b.count(b[j]) == 1 for i, j in pairs)
    assert len(pairs) == longest(a, b)


def test_of_lines_in_any_order_as_many_as_can_be_are_matched() -> None:
    lines = [b"0", b"1", b"2", b"3", b"4"]
    for shuffled in permutations(lines):
        pairs = _once_in_both(lines, list(shuffled))
        assert all(lines[i] == shuffled[j] for i, j in pairs)
        assert all(i1 < i2 and j1 < j2 for (i1, j1), (i2, j2) in pairwise(pairs))
        assert len(pairs) == longest(lines, list(shuffled))

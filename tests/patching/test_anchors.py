"""The shortest anchor that is unique, provable and recognisable."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.patching import anchors
from pipeline.patching.anchors import VISIBLE, _once, _provable, shortest_anchor
from pipeline.patching.matching import occurrences
from tests.examples import examples

BODY = b"""def f(capability):
    return capability.major == 9


def g(capability):
    return capability.major == 9
"""


def anchor(before: bytes, hole: bytes, text: bytes, scope: tuple[int, int] | None = None) -> bytes:
    start = before.index(hole)
    whole = scope or (0, len(before))
    span = shortest_anchor(before, whole, (start, start + len(hole)), text)
    return before[slice(*span)] if span else b""


def test_recognisable_not_one_letter() -> None:
    found = anchor(BODY, b"9", b"12", (0, BODY.index(b"def g")))
    assert b"9" in found
    assert len(found.replace(b" ", b"")) >= VISIBLE
    assert found in b"    return capability.major == 9"


def test_reaches_until_it_is_unique() -> None:
    found = anchor(BODY, b"== 9", b"!= 9")
    assert BODY.count(found) == 1
    assert found.endswith(b"def")


def test_stays_in_its_limits() -> None:
    data = b"aaaa bbbb cccc dddd eeee"
    span = shortest_anchor(data, (0, len(data)), (10, 14), b"x", limits=(5, 19))
    assert span and span[0] >= 5 and span[1] <= 19


def test_deletion_keeps_text_on_both_sides() -> None:
    found = anchor(b"alpha beta gamma delta", b" beta", b"")
    assert found.startswith(b"alpha") and not found.endswith(b"beta")


def test_none_where_nothing_is_left_to_hold_on_to() -> None:
    assert anchor(b"only line\n", b"only line\n", b"") == b""
    assert shortest_anchor(b"", (0, 0), (0, 0), b"new") is None


@pytest.mark.parametrize(
    ("final", "find", "replace", "proven"),
    [
        (b"x new y", b"old", b"new", True),
        (b"new y", b"old", b"new", True),  # at the very start, and the very end
        (b"x new", b"old", b"new", True),
        (b"x y", b"old", b"new", False),  # not made
        (b"new new", b"old", b"new", False),  # made twice
        (b"old new", b"old", b"new", False),  # the anchor is left before it, from the first byte
        (b"new old", b"old", b"new", False),  # and after it
        (b"xabx", b"xa", b"ab", False),  # and across its borders
        (b"xabx", b"bx", b"ab", False),
        (b"x aold y", b"old", b"aold", True),  # inside of it, it is the new text's own
        (b"newx", b"newx", b"new", False),  # and around it, from the first byte
    ],
)
def test_what_a_later_look_must_find(
    final: bytes, find: bytes, replace: bytes, proven: bool
) -> None:
    assert _provable(final, find, replace) is proven


@pytest.mark.parametrize(
    ("data", "scope", "once"),
    [
        (b"aa", (0, 2), False),  # two that overlap
        (b"ab", (0, 2), True),
        (b"ba", (0, 2), True),
        (b"ba", (0, 1), False),
        (b"a a", (1, 3), True),
        (b"a.a", (0, 2), True),
    ],
)
def test_once_in_a_scope(data: bytes, scope: tuple[int, int], once: bool) -> None:
    assert _once(data, scope, b"a") is once


def test_no_anchor_where_the_new_text_stands_already() -> None:
    """At the first byte of the scope too: the edit would look as if it were made."""
    assert anchor(b"f(2) f(1)", b"1", b"2") != b"f(1)"
    assert anchor(b"two one", b"one", b"two") == b"two one"


@settings(max_examples=examples(200), deadline=None)
@given(st.text("ab ", min_size=1, max_size=14), st.integers(0, 13), st.text("abc", max_size=3))
def test_no_shorter_span_of_tokens_would_do(text: str, at: int, new: str) -> None:
    """Compared with trying them all, for a text of one-letter tokens."""
    data = "+".join(text).encode()
    at = min(at, len(data))
    span = shortest_anchor(data, (0, len(data)), (at, at), new.encode())
    after = data[:at] + new.encode() + data[at:]
    least = min(VISIBLE, len(data.replace(b" ", b"")))
    good = []
    for start, end in product(range(at + 1), range(at, len(data) + 1)):
        find = data[start:end]
        made = data[start:at] + new.encode() + data[at:end]
        whole, there = (0, len(data)), occurrences(after, (0, len(after)), made)
        if (
            find
            and len(find.replace(b" ", b"")) >= least
            and made not in find
            and len(occurrences(data, whole, find)) == 1
            and not occurrences(data, whole, made)
            and len(there) == 1
            and all(
                there[0][0] <= s and e <= there[0][1]
                for s, e in occurrences(after, (0, len(after)), find)
            )
        ):
            good.append(end - start)
    assert (span[1] - span[0] if span else None) == min(good, default=None)


@pytest.mark.parametrize(
    ("data", "hole", "text", "span"),
    [
        (b"aaa", (1, 2), b"  ", (0, 3)),  # what is shorter stands more than once
        (b"ba", (1, 2), b"ba", (0, 2)),  # b"a" would do, but its replacement stands there already
        (b" +", (1, 1), b" ", (0, 2)),
        (b"++ ", (1, 1), b"b+a", (1, 3)),  # of two that are as short, the one less to the left
    ],
)
def test_the_shortest_of_all_when_one_letter_will_do(
    monkeypatch: pytest.MonkeyPatch,
    data: bytes,
    hole: tuple[int, int],
    text: bytes,
    span: tuple[int, int],
) -> None:
    monkeypatch.setattr(anchors, "VISIBLE", 1)
    assert anchors.shortest_anchor(data, (0, len(data)), hole, text) == span

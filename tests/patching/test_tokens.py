"""Words, blanks and signs: narrowed changes, and two changes of one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.patching import tokens as module
from pipeline.patching.tokens import contained, merge, narrowed, tokens

TEXT = st.text(alphabet="ab1_ .(=\n\r\té", max_size=25).map(str.encode)


@given(TEXT)
def test_tokens_are_the_text(text: bytes) -> None:
    assert b"".join(tokens(text)) == text


@given(TEXT, TEXT, TEXT, TEXT)
def test_narrowed_is_the_same_change(head: bytes, old: bytes, new: bytes, tail: bytes) -> None:
    whole = head + old + tail
    (start, end), text = narrowed(whole, (len(head), len(head) + len(old)), new)
    assert len(head) <= start <= end <= len(head) + len(old)
    assert whole[:start] + text + whole[end:] == head + new + tail


@given(TEXT, TEXT)
def test_merge_with_no_change_is_the_other_change(base: bytes, other: bytes) -> None:
    assert merge(base, base, other) == other
    assert merge(base, other, base) == other
    assert merge(base, other, other) == other


def test_both_changes_are_made() -> None:
    assert merge(b"if major != 9:", b"if major not in (9, 12):", b"if cc.major != 9:") == (
        b"if cc.major not in (9, 12):"
    )


def test_changes_that_touch_are_refused() -> None:
    assert merge(b"major == 9", b"major in (9, 12)", b"major >= 9") is None
    assert merge(b"a b", b"a x b", b"a y b") is None


def test_contained() -> None:
    share, span = contained(b"f(x)", b"  g( f( x ) )")
    assert (share, span) == (1.0, (5, 11))
    assert contained(b"f(x)", b"")[0] == 0
    assert contained(b"word(x)", b"(y)")[0] < 0.5


def test_what_stands_more_than_once_is_not_cut_twice() -> None:
    assert narrowed(b"((", (0, 2), b"(((") == ((2, 2), b"(")
    assert narrowed(b"(((", (0, 3), b"((") == ((2, 3), b"")


@pytest.mark.parametrize(
    ("base", "one", "other", "merged"),
    [
        (b"f(a)", b"f(x+a)", b"f(b)", b"f(x+b)"),  # an insertion before a change
        (b"f(a)", b"f(a+x)", b"f(b)", b"f(b+x)"),  # and behind it
        (b"f(a-b)", b"f(z)", b"f(a-!b)", None),  # and in the middle of it
        (b"a.b.c", b"x.c", b"a.y", None),  # changes that overlap
        (b"a.b", b"x.b", b"a.y", b"x.y"),  # and that do not
    ],
)
def test_what_goes_together(base: bytes, one: bytes, other: bytes, merged: bytes | None) -> None:
    assert merge(base, one, other) == merged
    assert merge(base, other, one) == merged


def test_long_texts_are_changed_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TOKENS", 5)
    assert merge(b"a.b.c", b"x.b.c", b"a.b.y") == b"x.b.y"
    monkeypatch.setattr(module, "_MOST_TOKENS", 4)
    assert merge(b"a.b.c", b"x.b.c", b"a.b.y") is None
    assert merge(b"a.b.c", b"a.b.c", b"a.b.y") == b"a.b.y"
    assert merge(b"a.b.c", b"a.b.y", b"a.b.c") == b"a.b.y"


def test_in_long_texts_nothing_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_TOKENS", 5)
    assert contained(b"a.b", b"a.b.c") == (1.0, (0, 3))
    monkeypatch.setattr(module, "_MOST_TOKENS", 4)
    assert contained(b"a.b", b"a.b.c") == (0.0, (0, 0))


@pytest.mark.parametrize(("text", "other"), [(b"", b"a"), (b"a", b" "), (b"a", b"b"), (b"", b"")])
def test_what_is_not_contained_has_no_place(text: bytes, other: bytes) -> None:
    assert contained(text, other) == (0.0, (0, 0))


def test_signs_that_stand_often_are_compared_too() -> None:
    text = b"a," * 150
    assert contained(text, b"x " + text) == (1.0, (2, 2 + len(text)))
    theirs = text[:150] + b"y" + text[150:]
    assert merge(text, b"x," + text, theirs) == b"x," + theirs
    base = text + b"b" + text + b"c" + text
    ours, theirs = base.replace(b"b", b"x"), base.replace(b"c", b"y")
    assert merge(base, ours, theirs) == theirs.replace(b"b", b"x")


def test_a_text_reaches_as_far_as_its_tokens_do() -> None:
    assert contained(b"a b", b"a - b + +") == (1.0, (0, 5))
    assert contained(b"x a b y", b"- + a b + -") == (0.5, (2, 9))

"""Words, blanks and signs: narrowed changes, and two changes of one text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

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

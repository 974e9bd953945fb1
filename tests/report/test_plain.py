"""Texts out of images do nothing."""

import pytest

from pipeline.report.plain import printable, shortened
from tests.report.samples import HOSTILE


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nvidia-nccl-cu13 2.30.7", "nvidia-nccl-cu13 2.30.7"),
        ("größe 日本 שלום", "größe 日本 שלום"),
        ("a\x1b[2J\x07", "a\\x1b[2J\\x07"),
        ("two\r\nlines\tand", "two\\x0d\\x0alines\\x09and"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
        ("\u2028\u200b\ufeff", "\\u2028\\u200b\\ufeff"),
        ("\udcff\ud800", "\\udcff\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_cannot_be_printed_is_named(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_hostile_names_can_be_written_anywhere() -> None:
    shown = printable(HOSTILE)
    assert shown.isprintable() and printable(shown) == shown
    shown.encode("utf-8")


def test_what_is_cut_is_marked() -> None:
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…" and shortened("a   b", 4) == "a…"

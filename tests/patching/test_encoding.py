"""How text goes into a file: by its cookie, its bytes, its byte order mark."""

from __future__ import annotations

import codecs

import pytest

from pipeline.patching.encoding import EncodingFault, NotText, detect, to_utf8


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"x = 1\n", "UTF-8"),
        (b"# coding: latin-1\n", "latin-1"),
        (b"\n# coding: latin-1\n", "latin-1"),
        (b"# hash\r# coding: latin-1\r", "latin-1"),
        (b"# hash\n# bang\n# coding: latin-1\n", "UTF-8"),  # the first two lines only
        (b"x = 1\n# coding: latin-1\n", "UTF-8"),  # and no code before it
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "UTF-8"),
    ],
)
def test_the_cookie_of_a_python_file(data: bytes, name: str) -> None:
    assert detect("a.py", data).name == name
    assert detect("a.txt", data).name == "UTF-8"


def test_what_cannot_be_written_is_named() -> None:
    latin = detect("a.py", b"# coding: latin-1\n")
    assert latin.encode("\xe9") == b"\xe9"
    with pytest.raises(EncodingFault) as caught:
        latin.encode("ab\N{EURO SIGN}")
    assert str(caught.value) == "'\N{EURO SIGN}' cannot be written in latin-1"


def test_the_first_nul_is_told() -> None:
    with pytest.raises(NotText, match="holds a NUL byte at offset 1"):
        detect("a.py", b"a\0b\0")


def test_the_same_text_in_utf_8() -> None:
    mark = codecs.BOM_UTF8
    assert to_utf8("a.py", mark + b"x" + mark) == b"x" + mark
    assert to_utf8("a.py", b"# coding: latin-1\n\xe9") == b"# coding: latin-1\n\xc3\xa9"
    assert to_utf8("a.py", b"\xe9") is None
    assert to_utf8("a.py", b"\0") is None

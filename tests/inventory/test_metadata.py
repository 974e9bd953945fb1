"""METADATA, RECORD and direct_url.json as installers write them, and as nobody should."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.inventory.metadata import (
    Origin,
    Record,
    RecordRow,
    Unreadable,
    parse_direct_url,
    parse_metadata,
    parse_record,
    rows_by_line,
)


def test_headers_end_where_the_description_begins() -> None:
    found = parse_metadata(
        b"Metadata-Version: 2.1\r\nName: MarkupSafe\r\nversion: 3.0.2\r\n"
        b"Requires-Dist: a>=1\r\nRequires-Dist: b\r\n ; python_version < '3'\r\n\r\nName: other\r\n"
    )
    assert (found.name, found.version) == ("MarkupSafe", "3.0.2")
    assert found.requires == ("a>=1", "b ; python_version < '3'")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no Name"),
        (b"Name: torch\n", "no Version"),
        (b"Name: torch\nVersion:\n", "no Version"),
        (b"Name: torch\nVersion: 1\nVersion: 2\n", "more than one Version"),
        (b"Name: ~orch\nVersion: 1\n", "is no name"),
        (b"\xff\xfe\0N\0a\0m\0e", "no Name"),
    ],
)
def test_metadata_without_identity_is_unreadable(data: bytes, problem: str) -> None:
    with pytest.raises(Unreadable, match=problem):
        parse_metadata(data)


def test_record_rows() -> None:
    rows = parse_record(
        b'"a,b.txt",,\r\nc.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n'
    )
    assert rows[0] == RecordRow("a,b.txt")
    assert rows[1].digest.startswith("e3b0c44298fc1c149afb") and rows[1].size == 0


@pytest.mark.parametrize(
    "data",
    [
        b"a\n",
        b",,\n",
        b"a,sha256=*,3\n",
        b"a,ab,3\n",
        b"a,,x\n",
        b'"a,,\n',
        b"a\0,,\n",
        b"\xff,,\n",
    ],
)
def test_what_is_no_record_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_record(data)


def test_direct_urls() -> None:
    editable = parse_direct_url(b'{"dir_info": {"editable": true}, "url": "file:///src/a%20b"}')
    assert str(editable) == "editable, src/a b"
    archive = parse_direct_url(
        b'{"archive_info": {"hash": "sha256=ab"}, "url": "https://user:token@host.invalid/x.whl"}'
    )
    assert archive == Origin("archive", "https://host.invalid/x.whl", sha256="ab")


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"url": 1}', b'{"url": "u"}'])
def test_what_is_no_direct_url_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_direct_url(data)


# Whole rows, halves of rows, and line ends: any of them can follow any other.
PIECES = [
    *("a,sha256=AAAA,1", '"b,c",,', '"x\ny",,', '"u\n\nv",sha256=AAAA,2', 'a"b,"c', "", " ", "d,,"),
    *('"e""f",,', "g,sha256=!!,1", "h,,x", '"i', "j\r", "\rk,,", "l,,\r", "m,,\x85n", '"', ",,"),
]
RECORDS = st.lists(st.sampled_from(PIECES), max_size=5).map(lambda rows: "\n".join(rows).encode())


def parsed(data: bytes, known: Mapping[str, RecordRow] | None = None) -> Record | str:
    try:
        return parse_record(data, known)
    except Unreadable as error:
        return str(error)


@given(RECORDS, RECORDS)
def test_rows_that_are_known_change_nothing(before: bytes, after: bytes) -> None:
    record = parsed(before)
    if not isinstance(record, str):
        assert parsed(after, rows_by_line(before, record)) == parsed(after)


def test_rows_by_line() -> None:
    data = b'"a,b.txt",,\nc.py,,3\n'
    assert rows_by_line(data, parse_record(data)) == {
        '"a,b.txt",,': RecordRow("a,b.txt"),
        "c.py,,3": RecordRow("c.py", size=3),
    }
    several = b'"a\nb",,\n'
    assert rows_by_line(several, parse_record(several)) == {}

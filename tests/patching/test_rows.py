"""RECORD after an edit: the rows of what changed, every other row byte for byte."""

from __future__ import annotations

import pytest

from pipeline.errors import Refusal
from pipeline.patching.record import recorded_files, rewrite_record

HASH = "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"  # of b"abc"


def test_rows_of_others_stay_before_between_and_behind() -> None:
    record = (
        b"first.txt,,\r\npkg/a.py,sha256=old,1\r\nmiddle.txt,,\npkg/a.pyc,,\n"
        b'\n"pkg/with, comma.py",,\nother/pkg/a.py,,\nlast.txt,,'
    )
    after, found = rewrite_record(
        record, {"pkg/a.py": b"abc", "pkg/with, comma.py": b"abc"}, ["pkg/a.pyc"]
    )
    assert after.decode() == (
        f"first.txt,,\r\npkg/a.py,sha256={HASH},3\r\nmiddle.txt,,\n"
        f'\n"pkg/with, comma.py",sha256={HASH},3\nother/pkg/a.py,,\nlast.txt,,'
    )
    assert found == {"pkg/a.py", "pkg/with, comma.py"}
    assert recorded_files(after) == [
        "first.txt", "pkg/a.py", "middle.txt", "pkg/with, comma.py", "other/pkg/a.py", "last.txt",
    ]  # fmt: skip


def test_a_row_that_cannot_be_read_is_told_by_its_line() -> None:
    with pytest.raises(Refusal, match=r"^RECORD line 2 cannot be read: "):
        rewrite_record(b"a,,\npkg/\xff,,\n", {"pkg/": b""})
    # One that nobody asks about may be what it is.
    assert rewrite_record(b"pkg/\xff,,\n", {"a.py": b""}) == (b"pkg/\xff,,\n", frozenset())

"""SUBJECT arguments."""

from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.subjects import Subject, open_subject, parse_subject


def test_subjects(tmp_path: Path) -> None:
    assert parse_subject("v8") == Subject("stage", Path(), "v8")
    assert parse_subject("oci:dist") == Subject("oci", Path("dist"))
    assert parse_subject("oci:dist:sm121-v8") == Subject("oci", Path("dist"), "sm121-v8")
    assert parse_subject("rootfs:/mnt/a:b") == Subject("rootfs", Path("/mnt/a:b"))
    with_colon = tmp_path / "a:b"
    with_colon.mkdir()
    assert parse_subject(f"oci:{with_colon}") == Subject("oci", with_colon)
    assert parse_subject(f"oci:{with_colon}:v1") == Subject("oci", with_colon, "v1")


@pytest.mark.parametrize("text", ["", "oci:", "rootfs:", "docker://x/y", "a/b", "ftp:x", "-v"])
def test_what_is_no_subject_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_subject(text)
    assert caught.value.hint


def test_a_directory_is_opened_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    view = open_subject(Subject("rootfs", tmp_path))
    assert view.read_many(["a"]) == {"a": b"x"}
    with pytest.raises(UsageError):
        open_subject(Subject("rootfs", tmp_path / "none"))

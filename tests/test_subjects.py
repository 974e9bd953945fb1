"""SUBJECT arguments."""

import errno
import os
from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble, UsageError
from pipeline.subjects import Subject, open_subject, parse_subject
from tests.oci.archives import config_of, docker_legacy, write
from tests.oci.makelayer import file, tar


def test_subjects(tmp_path: Path) -> None:
    assert parse_subject("v8") == Subject("stage", Path(), "v8")
    assert parse_subject("oci:dist") == Subject("oci", Path("dist"))
    assert parse_subject("oci:dist:sm121-v8") == Subject("oci", Path("dist"), "sm121-v8")
    assert parse_subject("rootfs:/mnt/a:b") == Subject("rootfs", Path("/mnt/a:b"))
    assert parse_subject("docker-archive:a.tar") == Subject("docker-archive", Path("a.tar"))
    named = Subject("docker-archive", Path("a.tar"), "repo:v8")
    assert parse_subject("docker-archive:a.tar:repo:v8") == named
    remote = Subject("docker", Path(), "localhost:5000/a/b:v8")
    assert parse_subject("docker://localhost:5000/a/b:v8") == remote
    archive = tmp_path / "b:c.tar"
    archive.write_bytes(b"")
    assert parse_subject(f"docker-archive:{archive}") == Subject("docker-archive", archive)
    here = Subject("docker-archive", archive, "@0")
    assert parse_subject(f"docker-archive:{archive}:@0") == here
    with_colon = tmp_path / "a:b"
    with_colon.mkdir()
    assert parse_subject(f"oci:{with_colon}") == Subject("oci", with_colon)
    assert parse_subject(f"oci:{with_colon}:v1") == Subject("oci", with_colon, "v1")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "oci:",
        "rootfs:",
        "docker-archive:",
        "docker:x/y",
        "docker://",
        "a/b",
        "ftp:x",
        "-v",
    ],
)
def test_what_is_no_subject_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_subject(text)
    assert caught.value.hint


def test_a_directory_is_opened_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    view = open_subject(Subject("rootfs", tmp_path), tmp_path)
    assert view.read_many(["a"]) == {"a": b"x"}
    with pytest.raises(UsageError):
        open_subject(Subject("rootfs", tmp_path / "none"), tmp_path)


def test_an_archive_is_opened_by_its_tag(tmp_path: Path) -> None:
    layers = [tar([file("a", "x")])]
    path = write(tmp_path / "a.tar", docker_legacy(config_of(layers), layers))
    assert open_subject(parse_subject(f"docker-archive:{path}:case:1"), tmp_path).read_many(["a"])


def test_special_files_are_seen_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    view = open_subject(Subject("rootfs", tmp_path), tmp_path)
    assert view.tree.nodes["pipe"].entry.type == "fifo"
    with pytest.raises(KeyError):
        view.read_many(["pipe"])
    with pytest.raises(UsageError, match="is no file"):
        open_subject(parse_subject(f"docker-archive:{tmp_path / 'pipe'}"), tmp_path)


def test_a_tree_that_cannot_be_read_whole_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.setattr("pipeline.oci.view._on_disk", refuse)
    with pytest.raises(OutsideTrouble, match=r"rootfs:.*: Permission denied") as caught:
        assert open_subject(Subject("rootfs", tmp_path), tmp_path).tree
    assert "podman unshare" in (caught.value.hint or "")


def refuse(*_: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

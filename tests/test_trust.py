"""A file is believed as long as nothing touched it, and hashed otherwise."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from pipeline.trust import Trust

DATA = b"some bytes"
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    return Trust(tmp_path / "cache")


def count_hashing(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    hashed: list[object] = []
    real = hashlib.file_digest

    def counted(*args: object) -> object:
        hashed.append(args)
        return real(*args)  # type: ignore[call-overload]

    monkeypatch.setattr(hashlib, "file_digest", counted)
    return hashed


def test_right_file_holds_and_is_hashed_once(
    file: Path, trust: Trust, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = count_hashing(monkeypatch)
    assert trust.holds(file, SHA256, len(DATA))
    assert trust.holds(file, SHA256, len(DATA))
    assert len(hashed) == 1


def test_changed_bytes_do_not_hold_though_size_and_mtime_are_put_back(
    file: Path, trust: Trust
) -> None:
    assert trust.holds(file, SHA256)
    before = file.stat()
    file.write_bytes(b"Some bytes")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not trust.holds(file, SHA256)


def test_missing_file_and_other_size_do_not_hold(file: Path, trust: Trust) -> None:
    assert not trust.holds(file.with_name("none"), SHA256)
    assert not trust.holds(file, SHA256, len(DATA) + 1)


def test_record_for_another_digest_is_not_believed(file: Path, trust: Trust) -> None:
    trust.record(file, "0" * 64)
    assert trust.holds(file, SHA256)
    assert not trust.holds(file, "1" * 64)


def test_another_link_is_no_change_when_it_is_said(
    file: Path, trust: Trust, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert trust.holds(file, SHA256)
    file.with_name("link").hardlink_to(file)
    trust.linked(file, SHA256)
    hashed = count_hashing(monkeypatch)
    assert trust.holds(file, SHA256)
    assert not hashed


def test_link_does_not_cover_a_change(file: Path, trust: Trust) -> None:
    assert trust.holds(file, SHA256)
    file.write_bytes(b"Some bytes")
    trust.linked(file, SHA256)
    assert not trust.holds(file, SHA256)

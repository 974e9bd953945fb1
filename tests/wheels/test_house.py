"""The store: what it lets in, what it trusts, and what it throws away."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.wheels.house import Wheelhouse, default_cache


@dataclass(frozen=True)
class Item:
    filename: str
    sha256: str
    size: int | None


def bring(house: Wheelhouse, data: bytes, name: str = "a-1-py3-none-any.whl") -> Item:
    item = Item(name, hashlib.sha256(data).hexdigest(), len(data))
    incoming = house.cache / "incoming"
    incoming.parent.mkdir(parents=True, exist_ok=True)
    incoming.write_bytes(data)
    house.add(incoming, item.sha256, item.size)
    return item


@pytest.fixture
def house(tmp_path: Path) -> Wheelhouse:
    return Wheelhouse(tmp_path / "cache")


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are hashed from now on."""
    names: list[str] = []
    digest = hashlib.file_digest

    def counting(file: Any, algorithm: str) -> Any:
        names.append(Path(file.name).name)
        return digest(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    return names


def test_file_enters_read_only_under_its_digest(house: Wheelhouse) -> None:
    item = bring(house, b"bytes")
    stored = house.path(item.sha256)
    assert stored == house.cache / "files/sha256" / item.sha256
    assert stored.read_bytes() == b"bytes"
    assert stat.S_IMODE(stored.stat().st_mode) == 0o444
    assert not (house.cache / "incoming").exists()
    assert house.has(item.sha256, 5)
    assert house.has(item.sha256)


def test_other_bytes_are_refused_and_discarded(house: Wheelhouse) -> None:
    incoming = house.cache / "incoming"
    incoming.parent.mkdir(parents=True)
    incoming.write_bytes(b"evil")
    with pytest.raises(Refusal, match="hash-mismatch: incoming") as refused:
        house.add(incoming, "0" * 64, 4)
    assert refused.value.details == (
        "locked sha256 " + "0" * 64,
        "sha256 of what came " + hashlib.sha256(b"evil").hexdigest(),
    )
    assert not incoming.exists()
    assert not house.path("0" * 64).exists()


def test_wrong_size_in_the_lock_is_refused(house: Wheelhouse) -> None:
    incoming = house.cache / "incoming"
    incoming.parent.mkdir(parents=True)
    incoming.write_bytes(b"four")
    with pytest.raises(Refusal) as refused:
        house.add(incoming, hashlib.sha256(b"four").hexdigest(), 5)
    assert "locked size 5 bytes, 4 bytes came" in refused.value.details


def test_untouched_file_is_not_hashed_again(house: Wheelhouse, hashed: list[str]) -> None:
    item = bring(house, b"bytes")
    hashed.clear()
    assert Wheelhouse(house.cache).verified(item.sha256)
    assert hashed == []


@pytest.mark.parametrize("same_size_and_mtime", [False, True])
def test_changed_file_is_discarded(house: Wheelhouse, same_size_and_mtime: bool) -> None:
    item = bring(house, b"bytes")
    stored = house.path(item.sha256)
    before = stored.stat()
    stored.chmod(0o644)
    stored.write_bytes(b"other" if same_size_and_mtime else b"longer bytes")
    if same_size_and_mtime:
        os.utime(stored, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not house.verified(item.sha256)
    assert not stored.exists()
    assert house.missing([item]) == [item]


def test_touched_file_with_right_bytes_is_hashed_once(house: Wheelhouse, hashed: list[str]) -> None:
    item = bring(house, b"bytes")
    house.path(item.sha256).touch()
    hashed.clear()
    assert house.verified(item.sha256)
    assert house.verified(item.sha256)
    assert hashed == [item.sha256]


def test_damaged_record_is_not_trusted(house: Wheelhouse, hashed: list[str]) -> None:
    item = bring(house, b"bytes")
    (record,) = (house.cache / "verified").iterdir()
    record.write_text("5 1", encoding="utf-8")
    hashed.clear()
    assert house.verified(item.sha256)
    assert hashed == [item.sha256]


def test_missing_keeps_the_order(house: Wheelhouse) -> None:
    here = bring(house, b"bytes")
    absent = [Item(n, digit * 64, None) for n, digit in (("z", "2"), ("y", "1"))]
    assert house.missing([absent[0], here, absent[1]]) == absent


def test_link_named_gives_hard_links_and_keeps_trust(
    house: Wheelhouse, tmp_path: Path, hashed: list[str]
) -> None:
    item = bring(house, b"bytes")
    named = tmp_path / "wheelhouse" / item.filename
    hashed.clear()
    for _ in range(2):
        house.link_named(named.parent, [item])
    assert named.samefile(house.path(item.sha256))
    assert not named.is_symlink()
    assert [p.name for p in named.parent.iterdir()] == [item.filename]
    assert house.verified(item.sha256)
    assert hashed == []  # the new link changed the ctime: the record went along


def test_link_named_replaces_an_older_file_of_that_name(house: Wheelhouse, tmp_path: Path) -> None:
    item = bring(house, b"bytes")
    (tmp_path / item.filename).write_bytes(b"an older build")
    house.link_named(tmp_path, [item])
    assert (tmp_path / item.filename).read_bytes() == b"bytes"


def test_link_named_in_another_file_system_gives_symlinks(
    house: Wheelhouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = bring(house, b"bytes")

    def refuse(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    house.link_named(tmp_path / "w", [item])
    assert (tmp_path / "w" / item.filename).readlink() == house.path(item.sha256)


def test_link_named_says_no_to_what_is_not_there(house: Wheelhouse, tmp_path: Path) -> None:
    with pytest.raises(OutsideTrouble, match="b-1 is not in"):
        house.link_named(tmp_path / "w", [Item("b-1", "0" * 64, 1)])


def test_cache_directory_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SM121_CHAIN_CACHE", "/somewhere/else")
    assert default_cache() == Path("/somewhere/else")
    monkeypatch.delenv("SM121_CHAIN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert default_cache() == Path("/xdg/sm121-chain")

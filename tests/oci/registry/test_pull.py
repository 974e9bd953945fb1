"""Downloads that break off, go on, and are never believed unseen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.oci.image import sha256
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.pull import pull_blob
from pipeline.oci.registry.store import BlobStore
from pipeline.oci.registry.together import side_by_side
from tests.oci.registry.server import Fault, Registry

DATA = bytes(range(256)) * 20_000  # 5 MB: several chunks


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "cache")


def pull(repository: Repository, digest: str, store: BlobStore, size: int = len(DATA)) -> int:
    """Pull, and return what progress counted."""
    counted: list[int] = []
    path = pull_blob(repository, digest, size, store, counted.append)
    assert sha256(path.read_bytes()) == digest
    return sum(counted)


def left_over(store: BlobStore) -> list[Path]:
    directory = store.cache / "partial"
    return list(directory.iterdir()) if directory.exists() else []


def test_a_blob_comes_once(registry: Registry, repository: Repository, store: BlobStore) -> None:
    digest = registry.put(DATA)
    assert pull(repository, digest, store) == len(DATA)
    assert pull(repository, digest, store) == len(DATA)
    assert len(registry.asked("GET .*blobs")) == 1
    assert not left_over(store)
    assert store.path(digest).stat().st_mode & 0o777 == 0o444
    empty = registry.put(b"")
    assert pull(repository, empty, store, 0) == 0


@pytest.mark.parametrize(
    "fault", [{"cut": 3_000_000}, {"drop": True}, {"status": 503}, {"stall": 1.0}],
    ids=["cut", "drop", "503", "stall"],
)  # fmt: skip
def test_what_broke_off_goes_on(
    registry: Registry, repository: Repository, store: BlobStore, fault: dict[str, int]
) -> None:
    digest = registry.put(DATA)
    registry.faults.append(Fault("GET .*blobs", times=2, **fault))  # type: ignore[arg-type]
    assert pull(repository, digest, store) == len(DATA)


def test_the_next_run_goes_on_with_a_range(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    digest = registry.put(DATA)
    with store.partial(digest) as file:
        file.write(DATA[:4_000_000])
    registry.log.clear()
    assert pull(repository, digest, store) == len(DATA)
    assert [one[2] for one in registry.asked("GET .*blobs")] == [206]


def test_a_registry_without_ranges_begins_again(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    digest = registry.put(DATA)
    registry.ranges = False
    registry.faults.append(Fault("GET .*blobs", cut=3_000_000))
    assert pull(repository, digest, store) == len(DATA)


@pytest.mark.parametrize("rest", [b"x" * 1000, DATA + b"more", DATA[:-1] + b"x"])
def test_a_damaged_rest_of_an_earlier_run_is_no_harm(
    registry: Registry, repository: Repository, store: BlobStore, rest: bytes
) -> None:
    digest = registry.put(DATA)
    with store.partial(digest) as file:
        file.write(rest)
    assert pull(repository, digest, store) == len(DATA)


def test_other_bytes_are_refused_and_not_kept(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    digest = registry.put(DATA)
    registry.faults.append(Fault("GET .*blobs", times=9, spoil=True))
    with pytest.raises(Refusal, match="digest-mismatch"):
        pull(repository, digest, store)
    assert not store.has(digest)
    registry.faults.clear()
    with pytest.raises(Refusal, match="more than the 10 bytes"):
        pull(repository, digest, store, 10)
    assert not store.has(digest)


def test_a_body_that_always_breaks_off_at_one_place_is_given_up(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    digest = registry.put(DATA)
    registry.faults.append(Fault("GET .*blobs", times=99, cut=0))
    with pytest.raises(OutsideTrouble, match="broke off at 0 of") as caught:
        pull(repository, digest, store)
    assert "goes on from there" in (caught.value.hint or "")


def test_a_file_of_the_store_that_was_damaged_comes_again(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    digest = registry.put(DATA)
    pull(repository, digest, store)
    path = store.path(digest)
    path.chmod(0o644)
    path.write_bytes(b"x" * len(DATA))
    os.utime(path)
    assert pull(repository, digest, store) == len(DATA)


def test_two_at_once_bring_a_blob_once(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    digest = registry.put(DATA)
    wire = repository.wire
    side_by_side(lambda _: pull(repository, digest, store), range(4), wire)
    assert len(registry.asked("GET .*blobs")) == 1


def test_the_first_error_ends_all(
    registry: Registry, repository: Repository, store: BlobStore
) -> None:
    good, gone = registry.put(DATA), "sha256:" + "0" * 64
    registry.faults.append(Fault(f"GET .*{good}", times=9, stall=5))
    with pytest.raises(Refusal, match="digest-gone"):
        side_by_side(lambda one: pull(repository, one, store), [good, gone], repository.wire)
    repository.wire.check()  # and leaves nothing stopped behind

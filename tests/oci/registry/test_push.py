"""Uploads that break off, are taken up again, mounted, or not needed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.oci.image import sha256
from pipeline.oci.registry.authority import Denied
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.push import How, push_blob
from pipeline.oci.registry.sessions import Sessions
from tests.oci.registry.conftest import client
from tests.oci.registry.server import Fault, Registry

DATA = bytes(range(256)) * 20_000
DIGEST = sha256(DATA)
CHUNK = 1 << 20


@pytest.fixture
def blob(tmp_path: Path) -> Path:
    path = tmp_path / "blob"
    path.write_bytes(DATA)
    return path


def push(
    repository: Repository, blob: Path, cache: Path | None = None, *, chunk: int = CHUNK
) -> tuple[How, int]:
    """Push, and return how and what progress counted."""
    counted: list[int] = []
    how = push_blob(
        repository, DIGEST, lambda: blob, len(DATA),
        moved=counted.append, sessions=Sessions(cache), chunk=chunk,
    )  # fmt: skip
    return how, sum(counted)


def test_a_blob_goes_once(registry: Registry, repository: Repository, blob: Path) -> None:
    assert push(repository, blob) == (How.SENT, len(DATA))
    assert registry.blobs == {DIGEST: DATA}
    assert registry.received == len(DATA)
    assert push(repository, blob) == (How.THERE, len(DATA))
    assert registry.received == len(DATA)


def test_what_was_sent_is_read_back_whole_and_what_was_there_is_not(
    registry: Registry, repository: Repository, blob: Path
) -> None:
    push(repository, blob)
    assert [one[2] for one in registry.asked("GET .*blobs/sha256")] == [200]
    registry.log.clear()
    push(repository, blob)
    assert [one[:2] for one in registry.log] == [("HEAD", f"/v2/stack/blobs/{DIGEST}")]


def test_reading_back_goes_on_where_it_broke_off(
    registry: Registry, repository: Repository, blob: Path
) -> None:
    registry.faults.append(Fault("GET .*blobs/sha256", cut=1_000_000))
    assert push(repository, blob) == (How.SENT, len(DATA))
    assert [one[2] for one in registry.asked("GET .*blobs/sha256")] == [200, 206]


def test_a_registry_that_serves_other_bytes_than_it_took(
    registry: Registry, repository: Repository, blob: Path, tmp_path: Path
) -> None:
    """Also when the run that wrote them was cut off before it had read them back."""
    registry.faults.append(Fault("GET .*blobs/sha256", times=2, spoil=True))
    for _ in range(2):
        with pytest.raises(Refusal, match="digest-mismatch"):
            push(repository, blob, tmp_path / "cache")
    assert push(repository, blob, tmp_path / "cache") == (How.THERE, len(DATA))
    assert len(registry.asked("GET .*blobs/sha256")) == 3
    assert registry.received == len(DATA)
    assert push(repository, blob, tmp_path / "cache") == (How.THERE, len(DATA))
    assert len(registry.asked("GET .*blobs/sha256")) == 3


def test_a_registry_that_takes_a_blob_and_loses_it(
    registry: Registry, repository: Repository, blob: Path
) -> None:
    registry.faults.append(Fault("PUT .*uploads", status=201))
    with pytest.raises(OutsideTrouble, match="was taken, but is not there"):
        push(repository, blob)


def test_a_mount_that_is_none(registry: Registry, repository: Repository, blob: Path) -> None:
    registry.faults.append(Fault("POST .*mount=", status=201))
    how = push_blob(
        repository, DIGEST, lambda: blob, len(DATA), moved=lambda _: None, sources=["base"]
    )
    assert how is How.SENT and registry.blobs == {DIGEST: DATA}


def test_a_small_blob_goes_at_once(registry: Registry, repository: Repository, blob: Path) -> None:
    push(repository, blob, chunk=len(DATA))
    assert [one[0] for one in registry.asked("uploads")] == ["POST", "PUT"]


def test_an_empty_blob(registry: Registry, repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    push_blob(repository, sha256(b""), lambda: tmp_path / "empty", 0, moved=lambda _: None)
    assert registry.blobs == {sha256(b""): b""}


@pytest.mark.parametrize(
    "fault",
    [
        Fault("PATCH", status=503),
        Fault("PATCH", status=429, headers={"Retry-After": "0"}),
        Fault("PATCH", drop=True),
        Fault("PATCH", status=503, carry_out=True),
        Fault("PATCH", drop=True, carry_out=True),
        Fault("PATCH", keep=300_000),
        Fault("POST .*uploads", status=500),
        Fault("POST .*uploads", drop=True),
        Fault("PUT .*uploads", status=502),
        Fault("PUT .*uploads", drop=True),
        Fault("PUT .*uploads", status=504, carry_out=True),
        Fault("HEAD .*blobs", status=503),
    ],
    ids=lambda fault: f"{fault.pattern}-{fault.status}-{fault.drop}-{fault.keep}-{fault.carry_out}",
)
@pytest.mark.parametrize("chunk", [CHUNK, len(DATA)], ids=["chunks", "whole"])
def test_trouble_on_the_way(
    registry: Registry, repository: Repository, blob: Path, fault: Fault, chunk: int
) -> None:
    registry.faults.append(Fault(**{**vars(fault), "times": 1}))
    how, counted = push(repository, blob, chunk=chunk)
    assert (how, counted) == (How.SENT, len(DATA))
    assert registry.blobs == {DIGEST: DATA}


def test_bytes_that_are_there_are_not_sent_again(
    registry: Registry, repository: Repository, blob: Path
) -> None:
    registry.faults.append(Fault("PATCH", keep=300_000))
    push(repository, blob)
    assert registry.received == len(DATA)


def test_a_lost_commit_is_seen(registry: Registry, repository: Repository, blob: Path) -> None:
    registry.faults.append(Fault("PUT .*uploads", drop=True, carry_out=True))
    assert push(repository, blob) == (How.SENT, len(DATA))
    assert registry.received == len(DATA)
    assert len(registry.asked("POST .*uploads")) == 1


def test_the_next_run_takes_an_upload_up(
    registry: Registry, repository: Repository, blob: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    registry.faults += [Fault("PATCH", times=2), Fault("PATCH", times=99, status=503)]
    with pytest.raises(OutsideTrouble, match="upload of"):
        push(repository, blob, cache)
    (note,) = (cache / "uploads").iterdir()
    assert note.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(note.read_bytes())) == {"location"}
    registry.faults.clear()
    registry.received = 0
    assert push(client(registry), blob, cache) == (How.SENT, len(DATA))
    assert registry.received == len(DATA) - 2 * CHUNK
    assert not list((cache / "uploads").iterdir())


@pytest.mark.parametrize("text", ["", "{", '{"location": "http://10.9.9.9/x"}', '{"location": 1}'])
def test_a_note_of_no_use_is_no_harm(
    registry: Registry, repository: Repository, blob: Path, tmp_path: Path, text: str
) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(ZeroDivisionError), Sessions(cache).of(repository.reference, DIGEST):
        _ = 1 // 0
    (note,) = (cache / "uploads").iterdir()
    note.write_text(text, encoding="utf-8")
    assert push(repository, blob, cache) == (How.SENT, len(DATA))


def test_a_registry_that_takes_no_chunks(
    registry: Registry, repository: Repository, blob: Path
) -> None:
    registry.faults.append(Fault("PATCH", times=99, status=405))
    assert push(repository, blob) == (How.SENT, len(DATA))
    assert registry.asked("PUT .*uploads")[-1][2] == 201


def test_tries_are_bounded(registry: Registry, repository: Repository, blob: Path) -> None:
    registry.faults.append(Fault("PATCH", times=99, status=500))
    with pytest.raises(OutsideTrouble, match="upload of") as caught:
        push(repository, blob)
    assert "state=" not in caught.value.message
    assert len(registry.asked("PATCH")) == 3


@pytest.mark.parametrize("status", [401, 403])
def test_denied_is_said_at_once(
    registry: Registry, repository: Repository, blob: Path, status: int
) -> None:
    registry.faults.append(Fault("POST", times=99, status=status))
    with pytest.raises(Denied, match="denied push on stack"):
        push(repository, blob)
    assert len(registry.asked("POST")) == 1


def test_a_file_that_is_not_what_its_name_says(
    registry: Registry, repository: Repository, blob: Path
) -> None:
    blob.write_bytes(DATA[:-1] + b"x")
    with pytest.raises(Refusal, match="not what its name says"):
        push(repository, blob)
    assert not registry.blobs


def test_a_token_that_ends_in_the_middle(
    registry: Registry, blob: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.token = "one"
    repository = client(registry)
    registry.faults.append(Fault("PATCH", status=401, headers={
        "WWW-Authenticate": f'Bearer realm="http://{registry.host}/token"'}))  # fmt: skip
    assert push(repository, blob) == (How.SENT, len(DATA))

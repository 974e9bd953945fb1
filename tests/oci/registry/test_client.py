"""What a registry may answer, and what becomes of it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.oci.image import sha256
from pipeline.oci.registry.authority import Denied
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.push import push_blob
from pipeline.oci.registry.wire import Wire
from tests.oci.registry.conftest import QUICK, client
from tests.oci.registry.server import Fault, Registry, serve

OCI = "application/vnd.oci.image.manifest.v1+json"
TOKEN = "tok-3f9a-secret"


def put(registry: Registry, data: bytes = b'{"layers":[]}') -> str:
    digest = sha256(data)
    registry.manifests[digest] = (data, OCI)
    registry.tags["latest"] = digest
    return digest


def test_a_manifest_by_tag_and_by_digest(registry: Registry, repository: Repository) -> None:
    digest = put(registry)
    by_tag = repository.manifest(repository.reference)
    assert by_tag == (b'{"layers":[]}', digest)
    assert repository.manifest(repository.reference.at(digest=digest)) == by_tag
    assert repository.digest_of("latest") == digest
    assert repository.digest_of("none") == ""
    assert repository.manifest(repository.reference.at(tag="none")) is None


@pytest.mark.parametrize("fault", [Fault(r"GET /v2/$", drop=True), Fault(r"GET /v2/$", status=503)])
def test_a_server_that_did_not_answer_at_once_is_not_taken_for_one_with_tls(
    registry: Registry, repository: Repository, fault: Fault
) -> None:
    put(registry)
    registry.faults.append(fault)
    assert repository.manifest(repository.reference)
    assert repository.url.startswith("http://")


def test_other_bytes_than_the_digest_are_refused(
    registry: Registry, repository: Repository
) -> None:
    digest = put(registry)
    registry.faults.append(Fault("GET .*manifests", times=9, spoil=True))
    with pytest.raises(Refusal, match="digest-mismatch"):
        repository.manifest(repository.reference.at(digest=digest))
    with pytest.raises(Refusal, match="digest-mismatch"):  # the header says what it should be
        repository.manifest(repository.reference)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
def test_what_may_pass_is_tried_again(
    registry: Registry, repository: Repository, status: int
) -> None:
    put(registry)
    registry.faults.append(Fault("GET .*manifests", times=2, status=status))
    assert repository.manifest(repository.reference)
    assert [one[2] for one in registry.asked("GET .*manifests")] == [status, status, 200]


def test_tries_are_bounded(registry: Registry, repository: Repository) -> None:
    registry.faults.append(Fault("GET .*manifests", times=99, status=503))
    with pytest.raises(OutsideTrouble, match="503"):
        repository.manifest(repository.reference)
    assert len(registry.asked("GET .*manifests")) == 3


def test_retry_after_is_honoured_and_bounded(registry: Registry, repository: Repository) -> None:
    import time

    put(registry)
    registry.faults.append(Fault("GET .*manifests", status=429, headers={"Retry-After": "1"}))
    began = time.monotonic()
    assert repository.manifest(repository.reference)
    assert 1 <= time.monotonic() - began < 3
    registry.faults.append(Fault("GET .*manifests", status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(OutsideTrouble, match="it asks for a pause of 3600 s"):
        repository.manifest(repository.reference)


@pytest.mark.parametrize(
    "fault", [{"drop": True}, {"cut": 5}, {"stall": 1.0}], ids=["drop", "cut", "stall"]
)
def test_a_broken_answer_is_asked_for_again(
    registry: Registry, repository: Repository, fault: dict[str, float]
) -> None:
    put(registry)
    registry.faults.append(Fault("GET .*manifests", **fault))  # type: ignore[arg-type]
    assert repository.manifest(repository.reference)


@pytest.mark.parametrize("status", [401, 403])
def test_denied(registry: Registry, repository: Repository, status: int) -> None:
    registry.faults.append(Fault("/stack/", times=99, status=status))
    with pytest.raises(Denied, match=r"denied push on stack") as caught:
        repository.manifest(repository.reference)
    assert caught.value.exit_status == 3 and "docker login" in (caught.value.hint or "")
    assert len(registry.asked("/stack/")) == 1


def test_a_web_page_is_named_as_what_it_is(registry: Registry, repository: Repository) -> None:
    digest = put(registry)
    blob = registry.put(b"x")
    page = {"Content-Type": "text/html; charset=utf-8"}
    registry.faults.append(
        Fault("GET .*/stack/", times=99, status=200, headers=page, body=b"<html>")
    )
    with pytest.raises(OutsideTrouble, match="a web page came"):
        repository.manifest(repository.reference.at(digest=digest))
    with pytest.raises(OutsideTrouble, match="a web page came"):
        repository.blob_bytes(blob, 1)
    with pytest.raises(OutsideTrouble, match="a web page came"):
        list(repository.tags())
    registry.faults[0] = Fault("GET .*/stack/", times=9, status=404, headers=page, body=b"<html>")
    assert repository.manifest(repository.reference) is None


def test_a_blob_that_is_gone(registry: Registry, repository: Repository) -> None:
    for ask in (repository.blob, lambda digest: repository.blob_bytes(digest, 1)):
        with pytest.raises(Refusal, match="digest-gone"):
            ask("sha256:" + "0" * 64)


def test_a_manifest_without_end_is_refused(registry: Registry, repository: Repository) -> None:
    put(registry, b" " * (4 * 1024 * 1024 + 1))
    with pytest.raises(Refusal, match="has more than"):
        repository.manifest(repository.reference)


def test_tags_come_page_by_page(registry: Registry, repository: Repository) -> None:
    registry.tags |= {f"t{number}": "" for number in range(7)}
    registry.page = 3
    assert list(repository.tags()) == [f"t{number}" for number in range(7)]
    assert len(registry.asked("tags/list")) == 3


@pytest.fixture
def guarded(registry: Registry, tmp_path: Path) -> Registry:
    """A registry that wants a token, and a user who has a password for it."""
    registry.token, pair = TOKEN, base64.b64encode(b"me:pass-3f9a-word").decode()
    registry.password = f"Basic {pair}"
    (tmp_path / "docker").mkdir()
    auths = {"auths": {registry.host: {"auth": pair}}}
    (tmp_path / "docker" / "config.json").write_text(json.dumps(auths), encoding="utf-8")
    return registry


def test_a_token_is_asked_for_once_with_our_own_scope(guarded: Registry) -> None:
    repository = client(guarded)
    put(guarded)
    for _ in range(3):
        assert repository.manifest(repository.reference)
    (asked,) = guarded.asked("/token")
    assert "scope=repository%3Astack%3Apull%2Cpush" in asked[1] and "x%3Ay" not in asked[1]
    assert asked[3] == guarded.password
    reading = client(guarded, push=False)
    assert reading.manifest(reading.reference)
    assert "scope=repository%3Astack%3Apull&" in guarded.asked("/token")[1][1] + "&"


def test_a_token_that_ends_is_asked_for_anew(guarded: Registry) -> None:
    repository = client(guarded)
    put(guarded)
    assert repository.manifest(repository.reference)
    guarded.token = "another"
    assert repository.manifest(repository.reference)
    assert len(guarded.asked("/token")) == 2


def test_a_wrong_password_is_said_without_it(guarded: Registry) -> None:
    guarded.password = "Basic other"
    with pytest.raises(Denied, match="gives no token for repository:stack") as caught:
        repository = client(guarded)
        repository.manifest(repository.reference)
    assert "docker login" in (caught.value.hint or "")


def test_no_secret_is_in_an_error_even_if_the_registry_says_it(guarded: Registry) -> None:
    repository = client(guarded)
    put(guarded)
    assert repository.manifest(repository.reference)
    echo = {"errors": [{"code": "X", "message": f"{TOKEN} {guarded.password} pass-3f9a-word"}]}
    guarded.faults.append(Fault("/stack/", times=9, status=418, body=json.dumps(echo).encode()))
    with pytest.raises(ChainError) as caught:
        repository.manifest(repository.reference)
    said = f"{caught.value.message} {caught.value.hint} {caught.value.details}"
    assert "418" in said and "3f9a" not in said and guarded.password.split()[1] not in said


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b'{"token": 1}', b'{"token": "a\\nb"}', b'{"token": ""}']
)
def test_what_is_no_token_is_refused(guarded: Registry, body: bytes) -> None:
    guarded.faults.append(Fault("/token", times=9, status=200, body=body))
    repository = client(guarded)
    with pytest.raises(OutsideTrouble, match="token"):
        repository.manifest(repository.reference)


def test_a_redirect_to_another_host_gets_no_token(guarded: Registry) -> None:
    data = b"layer"
    digest = guarded.put(data)
    with serve(blobs={digest: data}) as other:
        guarded.other = f"http://{other.host}"
        assert client(guarded).blob_bytes(digest, len(data)) == data
        assert [one[3] for one in other.log] == [""]
    assert guarded.asked("GET .*blobs")[0][3] == f"Bearer {TOKEN}"


def test_netrc_is_no_place_for_a_registrys_password(
    guarded: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password netrc-word\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(netrc))
    data = b"layer"
    digest = guarded.put(data)
    with serve(blobs={digest: data}) as other:
        guarded.other = f"http://{other.host}"
        client(guarded).blob_bytes(digest, len(data))
        assert [one[3] for one in other.log] == [""]


def test_redirects_without_end(registry: Registry, repository: Repository) -> None:
    digest = registry.put(b"x")
    loop = Fault(
        "GET .*blobs", times=99, status=307, headers={"Location": f"/v2/stack/blobs/{digest}"}
    )
    registry.faults.append(loop)
    with pytest.raises(OutsideTrouble, match="redirects"):
        repository.blob(digest)


def test_a_host_that_is_not_there(registry: Registry) -> None:
    from pipeline.oci.references import parse_reference
    from pipeline.oci.registry.wire import Wire
    from tests.oci.registry.conftest import QUICK

    nobody = Repository(parse_reference("127.0.0.1:1/x"), Wire(QUICK))
    with pytest.raises(OutsideTrouble, match="refused") as caught:
        nobody.manifest(nobody.reference)
    assert "Traceback" not in caught.value.message and "state=" not in caught.value.message


def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server here stands in for a proxy: it sees which host was asked for."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://{registry.host}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Wire(QUICK).request("GET", "http://registry.example.org/v2/", tries=1):
        assert registry.log[-1][1] == "http://registry.example.org/v2/"
    with Wire(QUICK).request("GET", f"http://{registry.host}/v2/", tries=1) as answer:
        assert answer.status_code == 200 and registry.log[-1][1] == "/v2/"
    monkeypatch.setenv("no_proxy", "example.org")
    with pytest.raises(OutsideTrouble):
        Wire(QUICK).request("GET", "http://registry.example.org/v2/", tries=1)


def test_an_upload_on_another_host_gets_no_token(guarded: Registry, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"abc")
    with serve() as other:
        place = f"http://{other.host}/v2/stack/blobs/uploads/0"
        other.uploads["0"] = b""
        guarded.faults.append(
            Fault("POST .*uploads", times=9, status=202, headers={"Location": place})
        )
        with pytest.raises(OutsideTrouble):  # the blob went elsewhere, so it is not there
            push_blob(
                client(guarded), sha256(b"abc"), lambda: tmp_path / "blob", 3, moved=lambda _: None
            )
        assert other.log and not any(one[3] for one in other.log)

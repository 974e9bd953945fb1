"""Debian's docker-registry and skopeo: what we write others read, and the other way round."""

from __future__ import annotations

import base64
import json
import random
import subprocess
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.oci.image import sha256
from pipeline.oci.reading import find_image
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.push import How, push_blob
from pipeline.oci.registry.sessions import Sessions
from pipeline.oci.registry.wire import Wire
from tests.oci.layouts import Layout, tagged, tar
from tests.oci.registry.conftest import QUICK
from tests.oci.registry.proxy import cutting_proxy
from tests.oci.registry.real import (
    PASSWORD,
    USER,
    Real,
    needs_registry,
    needs_skopeo,
    needs_tls,
    run_registry,
)

pytestmark = needs_registry


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A layout with an image `base`, and `v1`, which has one layer more."""
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path / "images")
    layers = [tar({f"file{number}": bytes([number]) * 100_000}) for number in range(3)]
    base, v1 = layout.image(layers), layout.image([*layers, tar({"new": b"x" * 50_000})])
    return layout.finish(tagged(base, "base"), tagged(v1, "v1"))


def push(images: Path, tag: str, repository: str) -> int:
    return main(["push", f"oci:{images}:{tag}", repository, "-q"])


def pulled(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1].removeprefix("docker pull ")


def skopeo(*args: str) -> str:
    return subprocess.run(["skopeo", *args], check=True, capture_output=True, text=True).stdout


def test_only_the_new_layer_travels(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_registry(tmp_path / "registry") as registry:
        assert push(images, "base", f"{registry.host}/chain") == 0
        before, sent = registry.blobs(), registry.requests("PUT")
        assert push(images, "v1", f"{registry.host}/chain") == 0
        image, _ = find_image(images, "v1")
        new = {image.layers[-1].digest, image.config_descriptor.digest, image.digest}
        assert registry.blobs() - before == new
        assert registry.requests("PUT") - sent == 3
        # and once more nothing at all, but the manifest that says so
        capsys.readouterr()
        assert push(images, "v1", f"{registry.host}/chain") == 0
        assert registry.requests("PUT") - sent == 4
        assert pulled(capsys) == f"{registry.host}/chain@{image.digest}"


def test_layers_are_mounted_from_another_repository(images: Path, tmp_path: Path) -> None:
    with run_registry(tmp_path / "registry") as registry:
        assert push(images, "base", f"{registry.host}/base") == 0
        uploads = registry.requests("PUT")
        target = f"{registry.host}/chain"
        source = f"{registry.host}/base"
        assert main(["push", f"oci:{images}:v1", target, "--mount-from", source, "-q"]) == 0
        assert registry.requests("PUT") - uploads == 3  # config, new layer, manifest
        other = ["push", f"oci:{images}:v1", target, "--mount-from", "localhost:1/base"]
        assert main(other) == 2


@pytest.mark.parametrize("chunk", [4_000_000, 64_000_000], ids=["chunks", "whole"])
def test_an_upload_that_breaks_off_inside_a_chunk_begins_again_and_stands_there_once(
    tmp_path: Path, chunk: int
) -> None:
    """docker-registry 2.8 forgets such an upload; registries that keep it: test_push.py."""
    data = random.Random(3).randbytes(12_000_000)
    (tmp_path / "blob").write_bytes(data)
    with (
        run_registry(tmp_path / "registry") as registry,
        cutting_proxy(int(registry.host.rpartition(":")[2]), 6_000_000) as proxy,
    ):
        repository = Repository(
            parse_reference(f"127.0.0.1:{proxy.port}/chain"), Wire(QUICK), push=True
        )
        counted: list[int] = []
        how = push_blob(
            repository, sha256(data), lambda: tmp_path / "blob", len(data),
            moved=counted.append, sessions=Sessions(tmp_path / "cache"), chunk=chunk,
        )  # fmt: skip
        assert proxy.cut and how is How.SENT and sum(counted) == len(data)
        # all of it once more after what was lost, and no more
        assert len(data) + 5_900_000 < proxy.sent < len(data) + proxy.cut + 100_000
        assert registry.blobs() == {sha256(data)}
        root = registry.data / "docker/registry/v2/repositories/chain"
        assert len(list((root / "_layers/sha256").iterdir())) == 1
        assert not list((tmp_path / "cache" / "uploads").iterdir())


@needs_skopeo
def test_skopeo_reads_what_we_push_and_we_what_it_copies(
    images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_registry(tmp_path / "registry") as registry:
        assert push(images, "v1", f"{registry.host}/chain") == 0
        reference = pulled(capsys)
        copy = tmp_path / "copy"
        skopeo("copy", "--src-tls-verify=false", "--override-arch=arm64", "--preserve-digests",
               f"docker://{reference}", f"oci:{copy}:v1")  # fmt: skip
        ours, theirs = find_image(images, "v1")[0], find_image(copy, "v1")[0]
        assert (ours.digest, ours.config) == (theirs.digest, theirs.config)
        skopeo("copy", "--dest-tls-verify=false", "--override-arch=arm64", "--preserve-digests",
               f"oci:{images}:base", f"docker://{registry.host}/other:base")  # fmt: skip
        other = Repository(parse_reference(f"{registry.host}/other"))
        base, _ = find_image(images, "base")
        assert other.digest_of("base") == base.digest
        assert list(other.tags()) == ["base"]


@needs_tls
def test_passwords_and_a_certificate_of_our_own(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    with run_registry(tmp_path / "registry", tls=True, passwords=True) as registry:
        target = f"{registry.host}/chain"
        assert push(images, "v1", target) == 3
        assert "SSL_CERT_FILE" in capsys.readouterr().err
        monkeypatch.setenv("SSL_CERT_FILE", str(registry.ca))
        assert push(images, "v1", target) == 3
        assert f"docker login {registry.host}" in capsys.readouterr().err
        login(tmp_path, registry, "wrong-3f9a-word")
        assert push(images, "v1", target) == 3
        out, err = capsys.readouterr()
        assert "may not push" in err and "3f9a" not in out + err
        login(tmp_path, registry, PASSWORD)
        assert push(images, "v1", target) == 0
        out, err = capsys.readouterr()
        assert out.startswith(f"docker pull {target}@sha256:") and "3f9a" not in out + err
        for file in (tmp_path / "cache").rglob("*"):
            assert not file.is_file() or b"3f9a" not in file.read_bytes()


def login(tmp_path: Path, registry: Real, password: str) -> None:
    pair = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (tmp_path / "docker").mkdir(exist_ok=True)
    auths = {"auths": {registry.host: {"auth": pair}}}
    (tmp_path / "docker" / "config.json").write_text(json.dumps(auths), encoding="utf-8")


@pytest.mark.parametrize("repository", ["127.0.0.1:1/a:tag", "127.0.0.1:1/A", "a@sha256:0", ""])
def test_a_name_is_checked_before_anything_moves(
    images: Path, repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(images, "v1", repository) == 2
    assert "next: " in capsys.readouterr().err

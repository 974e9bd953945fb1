"""Docker's configuration and its helpers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ChainError, OutsideTrouble, UsageError
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.credentials import Credentials, find_credentials

GHCR = parse_reference("ghcr.io/a/b")
HUB = parse_reference("a/b")
PAIR = base64.b64encode(b"me:se:cret").decode()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of Docker's config.json, and of helpers."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "config.json"


def write(config: Path, **document: Any) -> None:
    config.write_text(json.dumps(document), encoding="utf-8")


def helper(config: Path, name: str, script: str) -> None:
    file = config.parent / f"docker-credential-{name}"
    file.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    file.chmod(0o755)


def test_without_a_configuration_there_are_none(config: Path) -> None:
    assert find_credentials(GHCR) is None


@pytest.mark.parametrize("key", ["ghcr.io", "https://ghcr.io", "https://ghcr.io/v1/"])
def test_a_password_of_the_file(config: Path, key: str) -> None:
    write(config, auths={key: {"auth": PAIR}})
    assert find_credentials(GHCR) == Credentials("me", "se:cret")
    assert find_credentials(HUB) is None


def test_the_default_registry_has_a_key_of_its_own(config: Path) -> None:
    write(config, auths={"https://index.docker.io/v1/": {"auth": PAIR}})
    assert find_credentials(HUB) == Credentials("me", "se:cret")
    assert find_credentials(GHCR) is None


def test_an_identity_token(config: Path) -> None:
    write(config, auths={"ghcr.io": {"auth": PAIR, "identitytoken": "t"}})
    assert find_credentials(GHCR) == Credentials(identity_token="t")


def test_a_helper_of_the_registry_comes_before_the_store(config: Path) -> None:
    write(config, credsStore="all", credHelpers={"ghcr.io": "one"}, auths={"ghcr.io": {}})
    answer = '{"ServerURL":"x","Username":"%s","Secret":"s"}'
    helper(config, "one", f"read server; echo '{answer}' | sed \"s/%s/one $server/\"")
    helper(config, "all", f"read server; echo '{answer % 'all'}'")
    assert find_credentials(GHCR) == Credentials("one ghcr.io", "s")
    assert find_credentials(HUB) == Credentials("all", "s")


def test_a_helper_may_give_an_identity_token(config: Path) -> None:
    write(config, credsStore="all")
    helper(config, "all", """echo '{"Username":"<token>","Secret":"t"}'""")
    assert find_credentials(GHCR) == Credentials(identity_token="t")


def test_what_a_helper_does_not_know_may_stand_in_the_file(config: Path) -> None:
    write(config, credsStore="all", auths={"ghcr.io": {"auth": PAIR}})
    helper(config, "all", "echo credentials not found in native keychain; exit 1")
    assert find_credentials(GHCR) == Credentials("me", "se:cret")


@pytest.mark.parametrize(
    ("script", "status"), [("echo sesame; exit 1", 3), ("echo sesame", 3), ("echo '[]'", 3)]
)
def test_a_helper_that_does_not_work_is_named_and_its_words_are_not(
    config: Path, script: str, status: int
) -> None:
    write(config, credsStore="all")
    helper(config, "all", script)
    with pytest.raises(OutsideTrouble, match="docker-credential-all") as caught:
        find_credentials(GHCR)
    assert "sesame" not in caught.value.message


def test_a_helper_that_is_not_there_is_named(config: Path) -> None:
    write(config, credsStore="none")
    with pytest.raises(OutsideTrouble, match="docker-credential-none is not installed"):
        find_credentials(GHCR)
    write(config, credsStore="../evil")
    with pytest.raises(UsageError):
        find_credentials(GHCR)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"auths": []}', '{"auths": {"ghcr.io": {"auth": "%%"}}}',
             '{"auths": {"ghcr.io": {"auth": "bm9jb2xvbg=="}}}'],
)  # fmt: skip
def test_a_faulty_file_is_named_and_not_shown(config: Path, text: str) -> None:
    config.write_text(text, encoding="utf-8")
    with pytest.raises(ChainError) as caught:
        find_credentials(GHCR)
    assert str(config) in caught.value.message and caught.value.exit_status == 2


def test_nothing_shows_a_secret() -> None:
    assert "se:cret" not in repr(Credentials("me", "se:cret", "tok"))
    assert "tok" not in repr(Credentials("me", "se:cret", "tok"))

"""Case 25: base layers sit in another repository of the registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from tests.cases import expected, generate, scripted

GRANTED = ["a-both-scopes-granted", "d-placeholder-scope-in-the-ping"]
FALLBACK = ["b-source-not-readable-session-given", "c-source-not-readable-401"]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate("25", tmp_path_factory.mktemp("25"))


def push(case: Path, host: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(cache))
    subject, target = f"oci:{case}/image:case", f"{host}/stack"
    return main(["push", subject, target, "--mount-from", f"{host}/base-images"])


def finished(case: Path, host: str, state: Any, out: str) -> None:
    """The image is there, by digest alone, and the output says how to pull it."""
    digest = json.loads((case / "image.json").read_bytes())["manifest"]
    assert digest in state.mans["stack"] and not state.tags.get("stack")
    assert out.splitlines()[-1] == f"docker pull {host}/stack@{digest}"
    manifest = json.loads(state.mans["stack"][digest][0])
    for blob in [manifest["config"], *manifest["layers"]]:
        assert blob["digest"] in state.blobs["stack"]
    last = [one for one in state.log if one[0] in ("PUT", "POST", "PATCH")][-1]
    assert "/manifests/" in last[1]  # only when all blobs are there


def no_secrets(state: Any, text: str) -> None:
    assert "Bearer" not in text and not any(token in text for token in state.tokens)


@pytest.mark.parametrize("name", GRANTED)
def test_25_a_layer_is_mounted(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert expected("25")["variants"][name]["ok"]
    with scripted("25", case / f"{name}.json") as (host, state):
        assert push(case, host, tmp_path, monkeypatch) == 0
        out, err = capsys.readouterr()
        finished(case, host, state, out)
        no_secrets(state, out + err)
        mounts = [one for one in state.log if "mount=" in one[1]]
        assert [one[2] for one in mounts if one[2] != 401].count(201) == 1
        tokens = [one[1] for one in state.log if one[1].startswith("/token")]
        both = [one for one in tokens if "base-images%3Apull" in one]
        assert both and all("stack%3Apull%2Cpush" in one for one in both)
        assert not any("user%2Fimage" in one for one in tokens)
        base = json.loads((case / "base" / "index.json").read_bytes())["manifests"][0]["digest"]
        shared = json.loads(state.mans["base-images"][base][0])["layers"][0]["digest"]
        sent = [one[1] for one in state.log if one[0] == "PUT" and "digest=" in one[1]]
        assert sent and not any(shared.removeprefix("sha256:") in one for one in sent)


@pytest.mark.parametrize("name", FALLBACK)
def test_25_without_a_mount_the_bytes_are_sent(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with scripted("25", case / f"{name}.json") as (host, state):
        assert push(case, host, tmp_path, monkeypatch) == 0
        out, err = capsys.readouterr()
        finished(case, host, state, out)
        no_secrets(state, out + err)
        assert any("mount=" in one[1] for one in state.log)


def test_25_push_not_allowed(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    wanted = expected("25")["variants"]["e-push-not-allowed"]
    with scripted("25", case / "e-push-not-allowed.json") as (host, state):
        assert push(case, host, tmp_path, monkeypatch) == 3
        out, err = capsys.readouterr()
        assert out == "" and "denied push on stack" in err and "next: " in err
        no_secrets(state, out + err)
        assert len(state.log) <= wanted["requests_at_most"]
        assert not state.mans.get("stack")

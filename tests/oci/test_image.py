"""Config, manifest and fingerprint: golden bytes, and what a fingerprint survives."""

from __future__ import annotations

import json

import pytest

from pipeline.oci.image import (
    Image,
    Layer,
    Runtime,
    build_image,
    canonical,
    fingerprint,
    rfc3339,
    sha256,
)

LAYER = Layer("sha256:" + "a" * 64, "sha256:" + "b" * 64, 7, "application/x", "made by a test")
RUNTIME = Runtime({"B": "2", "A": "1"}, ["vllm", "serve"], (), "", "/work", {"l": "v"})


def image(runtime: Runtime = RUNTIME, layer: Layer = LAYER) -> Image:
    return build_image(
        [layer], runtime, epoch=1767225600, architecture="arm64", annotations={"x": "y"}
    )


def test_golden_bytes() -> None:
    made = image()
    assert made.digest == "sha256:e579615a315ef3258611c03e214bef3831decee6dfa104a2efdae1a6fab0ec61"
    assert made.digest == sha256(made.manifest)


def test_config_says_what_it_was_given() -> None:
    config = json.loads(image().config)
    assert config["created"] == "2026-01-01T00:00:00Z" == rfc3339(1767225600)
    assert config["config"]["Env"] == ["B=2", "A=1"]  # the order is the caller's
    assert config["rootfs"]["diff_ids"] == [LAYER.diff_id]
    assert [entry["created_by"] for entry in config["history"]] == ["made by a test"]
    assert "Cmd" not in config["config"] and "User" not in config["config"]


def test_manifest_names_config_and_layers() -> None:
    made = image()
    manifest = json.loads(made.manifest)
    assert manifest["config"]["digest"] == sha256(made.config)
    assert manifest["config"]["size"] == len(made.config)
    assert manifest["layers"][0]["digest"] == LAYER.digest


def test_fingerprint_survives_compression_history_and_empty_values() -> None:
    config = json.loads(image().config)
    other = {**config, "history": [], "created": "2030-01-01T00:00:00Z", "author": "someone"}
    other["config"] = {**config["config"], "Cmd": None, "User": "", "Volumes": {"/x": {}}}
    assert fingerprint(other) == fingerprint(config) == image().fingerprint


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "amd64"},
        {"os": "windows"},
        {"rootfs": {"diff_ids": ["sha256:" + "c" * 64]}},
        {"config": {"Env": ["A=1", "B=2"]}},
        {"config": {"Env": ["B=2", "A=1"], "Entrypoint": ["sh"]}},
    ],
)
def test_fingerprint_changes_with_what_a_container_sees(change: dict[str, object]) -> None:
    config = json.loads(image().config)
    assert fingerprint({**config, **change}) != fingerprint(config)


def test_canonical_json_has_one_form() -> None:
    assert canonical({"b": 1, "a": "é"}) == '{"a":"é","b":1}'.encode()
    with pytest.raises(ValueError, match="Out of range float"):
        canonical(float("nan"))

"""The verb `verify`, on a small line that is built, pushed, and tampered with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.line import Line, built_line, entered
from tests.oci.registry.server import Registry


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A line with its dist/, made once."""
    scratch = tmp_path_factory.mktemp("verify")
    return built_line(scratch)


@pytest.fixture
def line(built: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    return entered(built, tmp_path, monkeypatch)


def pushed(registry: Registry, stage: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["push", stage, f"{registry.host}/chain", "-q"]) == 0
    return capsys.readouterr().out.splitlines()[-1].removeprefix("docker pull ")


def test_what_was_pushed_is_what_was_built(
    line: Line, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = pushed(registry, "v4", capsys)
    assert main(["verify", reference, "-v"]) == 0
    out = capsys.readouterr().out
    assert " 0 not; " in out and out.endswith(", 2 patches\n")
    assert "patch tile: present: the layers are those built" in out
    assert "layer 0: sha256:" in out and out.count(" as built\n") >= 6
    # A held stage is verified as the image that stands for it.
    assert main(["verify", reference, "--stage", "v9"]) == 0


def test_another_stage_under_the_same_name_is_told_part_by_part(
    line: Line, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = pushed(registry, "v3", capsys)
    assert main(["verify", reference, "--stage", "v4", "-q"]) == 1
    out = capsys.readouterr().out
    assert "manifest: published sha256:" in out
    assert "annotation org.opencontainers.image.title: published sm121-v3, built sm121-v4" in out
    assert "config config.Labels" in out and "published absent, built sha256:" in out
    assert "patch-lost" in out or "tile" in out


def test_a_blob_that_is_gone_is_seen(
    line: Line, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = pushed(registry, "v1", capsys)
    digest = reference.partition("@")[2]
    layer = json.loads(registry.manifests[digest][0])["layers"][1]
    del registry.blobs[layer["digest"]]
    assert main(["verify", reference]) == 1
    assert "blob of layer 1: not there" in capsys.readouterr().out


def test_it_must_be_built_of_the_lock_as_it_is(
    line: Line, registry: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = pushed(registry, "v1", capsys)
    line.edit("patches/scale.toml", "return x * 3", "return 3 * x")
    line.edit("stages/v01-model.toml", "return x * 3", "return 3 * x")
    assert main(["verify", reference]) == 2
    assert "build it first" in capsys.readouterr().err
    shutil.rmtree(line.root / "dist")
    assert main(["verify", reference]) == 2
    assert main(["verify", f"{registry.host}/chain:none"]) == 1


def test_a_look_into_what_was_built_here_downloads_no_layer(
    line: Line, built: Line, registry: Registry, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The build has kept its indexes, so files of the published image are read by ranges."""
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(built.cache))
    reference = pushed(registry, "v4", capsys)
    registry.log.clear()
    assert main(["audit", f"docker://{reference}", "--against", "v4", "-q"]) == 0
    asked = registry.asked("GET .*/blobs/")
    assert len([one for one in asked if one[2] == 200]) == 1  # the config
    assert len([one for one in asked if one[2] == 206]) > 1

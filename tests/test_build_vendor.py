"""A chain on a vendor's image: taken by digest, left as it is, built upon."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import zstandard

from tests.line import Line
from tests.oci.registry.server import Registry, serve
from tests.vendor import CONFIG, HISTORY, SITE, documents, make_vendor, make_vendor_line

ROOT = Path(__file__).parents[1]


def fill(registry: Registry, layout: Path) -> str:
    """Put a layout's only image into a registry, under its tag; return its digest."""
    manifest, _, digest = documents(layout, "glm")
    blobs = layout / "blobs" / "sha256"
    for file in blobs.iterdir():
        registry.put(file.read_bytes())
    data = (blobs / digest.removeprefix("sha256:")).read_bytes()
    registry.manifests[digest] = (data, manifest["mediaType"])
    registry.tags["glm"] = digest
    return digest


@pytest.fixture
def line(tmp_path: Path, registry: Registry) -> Line:
    made, vendor = make_vendor_line(tmp_path / "scratch", f"{registry.host}/vendor:glm")
    fill(registry, vendor)
    return made


def build(line: Line, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    return subprocess.run(
        [sys.executable, "-m", "pipeline", "build", "--base", "day0", *args],
        cwd=line.root,
        env={**os.environ, **own, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def entries(layout: Path, digest: str) -> dict[str, bytes]:
    data = (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()
    plain = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True)
    with tarfile.open(fileobj=io.BytesIO(plain.read())) as tar:
        found = {}
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() else None
            found[member.name] = stream.read() if stream else b""
        return found


def test_the_chain_stands_on_the_vendors_image(line: Line, registry: Registry) -> None:
    done = build(line)
    assert done.returncode == 0, done.stderr
    dist = line.root / "dist"
    vendor, config, digest = documents(line.root.parent / "vendor", "glm")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"sm121-base {digest} sha256:")
    assert lines[-1] == "sm121-v4 held v3" and len(lines) == 4
    assert "first use" in done.stderr and "4 distributions captured" in done.stderr

    v1, v1_config, _ = documents(dist, "sm121-v1")
    v3, v3_config, _ = documents(dist, "sm121-v3")
    assert v1["layers"][:2] == v3["layers"][:2] == vendor["layers"]
    assert v3_config["history"][:4] == v1_config["history"][:4] == HISTORY
    assert [step["created_by"] for step in v3_config["history"][4:]] == [
        "sm121-chain v1: Scale by three",
        "sm121-chain v3: FlashInfer 0.6.18",
    ]
    assert v3_config["rootfs"]["diff_ids"][:2] == config["rootfs"]["diff_ids"]
    process = v3_config["config"]
    assert process["Env"] == [*CONFIG["Env"], "MODE=three"]
    assert process["ExposedPorts"] == CONFIG["ExposedPorts"]
    assert process["Labels"]["maintainer"] == "vendor"
    assert v3_config["author"] == "the vendor"
    notes = v3["annotations"]
    assert notes["org.opencontainers.image.base.digest"] == digest
    assert notes["org.opencontainers.image.base.name"] == f"{registry.host}/vendor:glm"

    changed = entries(dist, v3["layers"][3]["digest"])
    assert f"{SITE}/flashinfer/new.py" in changed
    assert f"{SITE}/flashinfer/.wh.old.py" in changed
    assert any(path.startswith(f"{SITE}/") and "jit" in path and ".wh." in path for path in changed)


def test_a_second_build_moves_nothing_and_gives_the_same(line: Line, registry: Registry) -> None:
    first = build(line)
    registry.log.clear()
    second = build(line)
    assert second.stdout == first.stdout and second.returncode == 0
    assert [one[:2] for one in registry.log if "/v2/vendor" in one[1]] == [
        ("HEAD", "/v2/vendor/manifests/glm")
    ]
    registry.log.clear()
    assert build(line, "--offline").stdout == first.stdout
    assert not registry.log


def test_29_base_layers_are_not_rewritten(line: Line) -> None:
    """Two builds in unlike places give one digest; the new layer holds what it must alone."""
    assert build(line, "--to", "v1").returncode == 0
    v1, _, digest = documents(line.root / "dist", "sm121-v1")
    layer = entries(line.root / "dist", v1["layers"][2]["digest"])
    files = {name for name, data in layer.items() if data or ".wh." in name}
    assert files == {
        f"{SITE}/vllm/model.py",
        f"{SITE}/vllm-0.30.0.dist-info/RECORD",
        "usr/share/sm121-chain/stages/v1.json",
    }
    other = line.root.parent / "an other"
    shutil.copytree(line.root, other, ignore=shutil.ignore_patterns("dist"))
    cold = line.root.parent / "cold"
    shutil.copytree(line.cache / "files", cold / "files")
    elsewhere = Line(other, cold, line.wheels)
    again = build(elsewhere, "--to", "v1", TZ="Asia/Kathmandu", SOURCE_DATE_EPOCH="1700000000")
    assert again.returncode == 0, again.stderr
    assert documents(other / "dist", "sm121-v1")[2] == digest


def test_22_the_tag_has_moved(line: Line, registry: Registry, tmp_path: Path) -> None:
    """The locked digest is used, what is behind the tag is not, and what moved is said."""
    wheel = next(path for name, path in line.wheels.items() if "0.6.18" in name)
    now = make_vendor(tmp_path / "now", [wheel], salt="new")
    before = registry.tags["glm"]
    fill(registry, tmp_path / "now")
    done = build(line, "--to", "v1")
    assert done.returncode == 0
    assert f"warning: tag-moved: {registry.host}/vendor:glm names {now} by now" in done.stderr
    assert f"the locked {before} is used" in done.stderr
    assert "0 of its 2 layers are in the locked image" in done.stderr
    assert done.stdout.startswith(f"sm121-base {before} ")
    del registry.tags["glm"]
    assert "tag-gone" in build(line, "--to", "v1").stderr


def test_22_the_digest_is_gone(line: Line, registry: Registry) -> None:
    registry.manifests.clear()
    done = build(line)
    assert done.returncode == 1 and done.stdout == ""
    assert "digest-gone" in done.stderr and done.stderr.count("error: ") == 1


def test_22_wrong_bytes(line: Line, registry: Registry) -> None:
    digest = registry.tags["glm"]
    data, kind = registry.manifests[digest]
    registry.manifests[digest] = (data + b"\n", kind)
    done = build(line)
    assert done.returncode == 1 and "digest-mismatch" in done.stderr


def test_offline_without_the_base(line: Line, registry: Registry) -> None:
    done = build(line, "--offline")
    assert done.returncode == 3 and "--offline forbids fetching" in done.stderr
    assert not registry.log


@pytest.mark.parametrize("kind", ["registry", "oci", "archive"])
def test_a_mirror(line: Line, registry: Registry, tmp_path: Path, kind: str) -> None:
    vendor = line.root.parent / "vendor"
    registry.manifests.clear()
    with serve() as other:
        fill(other, vendor)
        archive = tmp_path / "vendor.tar"
        with tarfile.open(archive, "w") as tar:  # as Docker from 25 saves
            tar.add(vendor, arcname=".")
        mirror = {
            "registry": f"{other.host}/copy",
            "oci": f"oci:{vendor}:glm",
            "archive": f"docker-archive:{archive}",
        }[kind]
        done = build(line, "--to", "v1", "--mirror", mirror)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"sm121-base {registry.tags['glm']} ")
    assert not registry.log


def test_a_mirror_with_other_bytes(line: Line, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(line.root.parent / "vendor", copy)
    manifest = documents(copy, "glm")[0]
    layer = copy / "blobs" / "sha256" / manifest["layers"][1]["digest"].removeprefix("sha256:")
    data = layer.read_bytes()
    layer.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    done = build(line, "--mirror", f"oci:{copy}")
    assert done.returncode == 1 and "digest-mismatch" in done.stderr
    empty = tmp_path / "empty.tar"
    with tarfile.open(empty, "w") as tar:
        tar.addfile(tarfile.TarInfo("manifest.json"))
    done = build(line, "--mirror", f"docker-archive:{empty}")
    assert done.returncode == 1 and "unpacked layers" in done.stderr
    done = build(line, "--mirror", "localhost:1/x@sha256:" + "0" * 64)
    assert done.returncode == 2 and "another digest" in done.stderr


def test_the_lock_knows_what_must_be_in_it(tmp_path: Path, registry: Registry) -> None:
    inventory = 'inventory = ["flashinfer-python==0.6.16", "vllm==0.30.0"]'
    line, vendor = make_vendor_line(tmp_path / "s", f"{registry.host}/vendor:glm", inventory)
    fill(registry, vendor)
    done = build(line)
    assert done.returncode == 1 and done.stdout == ""
    assert "flashinfer-python: expected 0.6.16, found 0.6.17" in done.stderr


def test_another_platform_is_refused(line: Line, registry: Registry, tmp_path: Path) -> None:
    old = registry.tags["glm"]
    make_vendor(tmp_path / "amd", list(line.wheels.values())[:1], architecture="amd64")
    line.edit("pins.toml", old, fill(registry, tmp_path / "amd"))
    done = build(line)
    assert done.returncode == 1 and "no image for linux/arm64" in done.stderr


def test_a_held_stage_that_would_change_something_is_refused(line: Line) -> None:
    text = (line.root / "pins.toml").read_text(encoding="utf-8")
    nccl = next(name for name in line.wheels if "nccl" in name)
    changed = text.replace('version = "2.30.7"', 'version = "2.30.6"').replace(
        nccl, nccl.replace("2.30.7", "2.30.6")
    )
    (line.root / "pins.toml").write_text(changed, encoding="utf-8")
    done = build(line)
    assert done.returncode == 1
    assert re.search(r"v4 is held on base day0, but the lock changes it", done.stderr)


def test_the_audit_of_a_stage_knows_the_captured_inventory(line: Line) -> None:
    assert build(line).returncode == 0
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "audit", "v3", "--base", "day0", "--format", "json"],
        cwd=line.root, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["counts"]["error"] == 0
    assert {one["name"] for one in report["distributions"]} == {
        "vllm", "nvidia-nccl-cu13", "flashinfer-python",
    }  # fmt: skip


def test_fetch_brings_the_base_image_too(line: Line, registry: Registry) -> None:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "fetch", "--base", "day0", "--to", "v1", "-q"],
        cwd=line.root, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    registry.log.clear()
    assert build(line, "--to", "v1", "--offline").returncode == 0
    assert not registry.log


def test_a_push_to_the_vendors_registry_asks_it_to_mount(line: Line, registry: Registry) -> None:
    assert build(line, "--to", "v1").returncode == 0
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    blobs = dict(registry.blobs)
    registry.blobs.clear()
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "push", "v1", f"{registry.host}/me/chain", "--base",
         "day0"],
        cwd=line.root, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(registry.asked("POST .*mount=.*from=vendor")) == 3
    assert set(blobs) & set(registry.blobs)

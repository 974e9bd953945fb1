"""Which layers of a vendor's image travel: those from which something is read, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from pipeline.oci.image import sha256
from tests.line import Line
from tests.oci.registry.server import Registry, serve
from tests.test_build_vendor import build, fill
from tests.vendor import documents, make_vendor_line

ROOT = Path(__file__).parents[1]


@pytest.fixture
def line(tmp_path: Path, registry: Registry) -> Line:
    """A line on an image of two layers: Ubuntu, and what pip installed."""
    made, vendor = make_vendor_line(tmp_path / "scratch", f"{registry.host}/vendor:glm")
    fill(registry, vendor)
    return made


def verb(line: Line, *args: str) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(line.cache)}
    return subprocess.run(
        [sys.executable, "-m", "pipeline", *args],
        cwd=line.root, env={**os.environ, **own}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def layers(line: Line) -> list[str]:
    manifest, _, _ = documents(line.root.parent / "vendor", "glm")
    return [layer["digest"] for layer in manifest["layers"]]


def came(line: Line, registry: Registry) -> list[int]:
    """The layers that were downloaded, by number, each as often as it was."""
    numbers = {digest: number for number, digest in enumerate(layers(line))}
    asked = [path.rpartition("/")[2] for _, path, _, _ in registry.asked("GET .*/blobs/")]
    return sorted(numbers[digest] for digest in asked if digest in numbers)


def captured(line: Line, registry: Registry) -> Line:
    """The same line on a machine that has only the wheels; its lock names a capture."""
    done = verb(line, "fetch", "--base", "day0", "-q", "--capture", "bases/day0.captured")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('captured = { path = "bases/day0.captured", sha256 = "')
    line.edit("pins.toml", "\n[[tool.sm121-chain.removals]]",
              f"{done.stdout}\n[[tool.sm121-chain.removals]]")  # fmt: skip
    return elsewhere(line, registry)


def elsewhere(line: Line, registry: Registry) -> Line:
    """A machine that has the project and its wheels, and nothing of the base."""
    other = line.root.parent / "elsewhere"
    shutil.copytree(line.root, other / "project", ignore=shutil.ignore_patterns("dist"))
    shutil.copytree(line.root.parent / "vendor", other / "vendor")
    wheels = other / "cache" / "files" / "sha256"
    wheels.mkdir(parents=True)
    for path in line.wheels.values():
        stored = line.stored(path.name)
        if stored.is_file():
            shutil.copyfile(stored, wheels / stored.name)
    registry.log.clear()
    return Line(other / "project", other / "cache", line.wheels)


def test_at_the_first_use_every_layer_comes_once_and_it_is_said_why(
    line: Line, registry: Registry
) -> None:
    done = build(line)
    assert done.returncode == 0, done.stderr
    assert came(line, registry) == [0, 1]
    assert "2 of the 2 layers of" in done.stderr
    assert "each must be read once to know what is in it" in done.stderr
    assert "were not needed" not in done.stderr


def test_with_a_capture_only_layers_that_are_read_come(line: Line, registry: Registry) -> None:
    first = build(line)
    other = captured(line, registry)
    done = build(other)
    assert done.returncode == 0, done.stderr
    assert done.stdout == first.stdout
    assert came(line, registry) == [1]
    assert "1 of the 2 layers of" in done.stderr and "they hold metadata" in done.stderr
    assert "1 of the base's 2 layers" in done.stderr and "fetch --base day0" in done.stderr
    blobs = other.root / "dist" / "blobs" / "sha256"
    assert [(blobs / one[7:]).is_file() for one in layers(line)] == [False, True]
    # and nothing more the next time, or without a network
    registry.log.clear()
    assert build(other, "--offline").stdout == first.stdout
    assert not registry.log
    # the lines of a plan's steps are those of a machine that has all layers
    assert verb(other, "fetch", "--base", "day0", "-q").returncode == 0
    assert build(other).stdout == first.stdout
    assert (blobs / layers(line)[0][7:]).is_file()


def test_a_layer_that_went_out_of_the_cache_comes_when_a_step_must_read_it(
    line: Line, registry: Registry
) -> None:
    first = build(line, "--to", "v1")
    for digest in layers(line):
        (line.cache / "files" / "sha256" / digest[7:]).unlink()
    shutil.rmtree(line.root / "dist")
    registry.log.clear()
    again = build(line)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith(first.stdout)
    assert came(line, registry) == []  # all that v3 reads of them are texts that were kept
    for file in (line.cache / "indexes").glob("*.texts"):
        file.unlink()
    shutil.rmtree(line.cache / "steps")
    last = build(line)
    assert last.returncode == 0, last.stderr
    assert last.stdout == again.stdout
    assert came(line, registry) == [1]
    assert "a step reads files of them" in last.stderr


def test_offline_says_which_layers_are_missing(line: Line, registry: Registry) -> None:
    other = captured(line, registry)
    vendor = documents(line.root.parent / "vendor", "glm")
    store = other.cache / "files" / "sha256"
    for digest in (vendor[2], vendor[0]["config"]["digest"]):
        shutil.copyfile(line.cache / "files" / "sha256" / digest[7:], store / digest[7:])
    done = build(other, "--offline")
    assert done.returncode == 3 and done.stdout == ""
    assert "1 layers of" in done.stderr and "--offline forbids fetching" in done.stderr


def test_a_push_next_to_the_base_needs_no_base_layer_here(line: Line, registry: Registry) -> None:
    other = captured(line, registry)
    assert build(other, "--to", "v1").returncode == 0
    registry.log.clear()
    registry.received = 0
    done = verb(other, "push", "v1", f"{registry.host}/vendor", "--base", "day0")
    assert done.returncode == 0, done.stderr
    assert came(line, registry) == []
    assert "2 blobs there already" in done.stderr and "2 blobs sent" in done.stderr


def test_29_a_push_elsewhere_brings_what_the_layout_leaves_out(
    line: Line, registry: Registry
) -> None:
    other = captured(line, registry)
    assert build(other, "--to", "v1").returncode == 0
    registry.log.clear()
    with serve() as target:
        done = verb(other, "push", "v1", f"{target.host}/chain", "--base", "day0", "-q")
        assert done.returncode == 0, done.stderr
        assert set(layers(line)) < set(target.blobs)
    assert came(line, registry) == [0]


def test_an_audit_of_a_stage_needs_no_layer_that_it_does_not_read(
    line: Line, registry: Registry
) -> None:
    other = captured(line, registry)
    assert build(other).returncode == 0
    registry.log.clear()
    for name in ("v3", "base"):
        done = verb(other, "audit", name, "--base", "day0")
        assert done.returncode == 0, done.stdout + done.stderr
    assert came(line, registry) == []


def test_a_layout_that_lacks_a_layer_of_nobodys_is_damaged(line: Line, registry: Registry) -> None:
    vendor = line.root.parent / "vendor"
    (vendor / "blobs" / "sha256" / layers(line)[0][7:]).unlink()
    done = verb(line, "push", f"oci:{vendor}", f"{registry.host}/other", "-q")
    assert done.returncode == 0  # the registry has it
    registry.blobs.clear()
    done = verb(line, "push", f"oci:{vendor}", f"{registry.host}/other", "-q")
    assert done.returncode == 1 and "is missing" in done.stderr


@pytest.mark.parametrize("fault", ["absent", "other", "cut", "image"])
def test_a_capture_that_is_not_the_locked_one(line: Line, registry: Registry, fault: str) -> None:
    other = captured(line, registry)
    file = other.root / "bases" / "day0.captured"
    if fault == "absent":
        file.unlink()
    elif fault == "other":
        file.write_bytes(file.read_bytes()[:-1] + b"x")
    elif fault == "cut":
        file.write_bytes(file.read_bytes()[:-1])
    else:  # it is the locked one, but says what is in another image
        old = file.read_bytes()
        text = zstandard.ZstdDecompressor().decompress(old)
        new = zstandard.compress(text.replace(b'"image":"sha256:', b'"image":"sha256:0', 1))
        file.write_bytes(new)
        for one, two in ((sha256(old)[7:], sha256(new)[7:]), (f"{len(old)} }}", f"{len(new)} }}")):
            other.edit("pins.toml", one, two)
    done = build(other)
    assert done.returncode == (2 if fault == "absent" else 1)
    assert "--capture FILE makes it anew" in done.stderr and done.stderr.count("error: ") == 1
    assert came(line, registry) == []


def test_only_a_base_that_is_an_image_is_captured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "fetch", "--base", "wheels", "--capture", "x"],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "is no image of a registry" in done.stderr

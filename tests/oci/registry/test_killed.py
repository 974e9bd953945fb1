"""kill -9 at random points of a push and of a pull: the next run finishes, and nothing is torn."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.oci.image import sha256
from pipeline.oci.reading import find_image
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.remote import find_remote, pull_layers
from pipeline.oci.registry.store import BlobStore
from pipeline.progress import Progress
from tests.oci.layouts import Layout, tagged, tar
from tests.oci.registry.real import Real, needs_registry, run_registry

pytestmark = needs_registry
ROOT = Path(__file__).parents[3]
POINTS = 20
_PULL = """
import sys
from pathlib import Path
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.remote import find_remote, pull_layers
from pipeline.oci.registry.store import BlobStore
from pipeline.progress import Progress
reference, store = parse_reference(sys.argv[1]), BlobStore(Path(sys.argv[2]))
repository = Repository(reference)
pull_layers(repository, find_remote(repository, reference, store=store), store, Progress())
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layout of one image with six layers of 8 MB."""
    layout = Layout(tmp_path_factory.mktemp("killed") / "images")
    layers = [
        tar({f"f{number}": random.Random(number).randbytes(8_000_000)}) for number in range(6)
    ]
    return layout.finish(tagged(layout.image(layers), "x"))


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with run_registry(tmp_path_factory.mktemp("killed-registry")) as running:
        yield running


def start(command: list[str], cache: Path) -> subprocess.Popen[bytes]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SM121_CHAIN_CACHE": str(cache)}
    return subprocess.Popen(
        [sys.executable, *command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(command: list[str], cache: Path) -> float:
    """Run to the end, which must be good; return the seconds that it took."""
    began = time.monotonic()
    process = start(command, cache)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    return time.monotonic() - began


def kill(command: list[str], cache: Path, after: float) -> bool:
    """Kill a run after some seconds; whether it had not ended by itself."""
    process = start(command, cache)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def whole(store: BlobStore) -> bool:
    """Whether every file of a store is what its name says."""
    files = store.cache / "files" / "sha256"
    found = list(files.iterdir()) if files.is_dir() else []
    return all(sha256(file.read_bytes()) == f"sha256:{file.name}" for file in found)


def test_a_push(images: Path, registry: Real, tmp_path: Path) -> None:
    image, _ = find_image(images, "x")

    def command(number: int) -> list[str]:
        return ["-m", "pipeline", "push", "-q", f"oci:{images}:x", f"{registry.host}/p{number}"]

    full = finish(command(0), tmp_path / "cache")
    points = random.Random(9)
    killed = number = 0
    while killed < POINTS:
        number += 1
        assert number < 4 * POINTS
        cache = tmp_path / f"cache{number}"
        killed += kill(command(number), cache, full * points.uniform(0.3, 0.95))
        full = min(full, finish(command(number), cache) * 1.2)  # a run that had less to do
        reference = parse_reference(f"{registry.host}/p{number}@{image.digest}")
        repository = Repository(reference)
        there = find_remote(repository, reference)
        assert (there.manifest, there.config) == (image.manifest, image.config)
        assert all(repository.blob_size(one.digest) == one.size for one in there.layers)
    # What the registry holds is what it says: all of it once more, verified.
    store = BlobStore(tmp_path / "check")
    pull_layers(repository, there, store, Progress())
    assert whole(store)


def test_a_pull(images: Path, registry: Real, tmp_path: Path) -> None:
    image, _ = find_image(images, "x")
    finish(["-m", "pipeline", "push", "-q", f"oci:{images}:x", f"{registry.host}/q"], tmp_path)

    def command(cache: Path) -> list[str]:
        return ["-c", _PULL, f"{registry.host}/q@{image.digest}", str(cache)]

    full = finish(command(tmp_path / "first"), tmp_path)
    points = random.Random(7)
    killed = number = 0
    while killed < POINTS:
        number += 1
        assert number < 4 * POINTS
        store = BlobStore(tmp_path / f"pull{number}")
        killed += kill(command(store.cache), tmp_path, full * points.uniform(0.3, 0.95))
        assert whole(store)
        full = min(full, finish(command(store.cache), tmp_path) * 1.2)  # it had less to do
        assert whole(store)
        assert all(store.path(one.digest).is_file() for one in image.layers)
        assert not list((store.cache / "partial").iterdir())

"""Images in runtimes: loaded, shown, compared."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.cli import main
from pipeline.errors import Refusal
from pipeline.hosts.inspection import differences, read_inspection
from pipeline.oci.archive import open_archive
from pipeline.oci.image import sha256
from pipeline.oci.imagefile import Descriptor
from pipeline.oci.reading import find_image
from pipeline.oci.saving import write_archive
from tests.hosts.dockerd import missing, run_dockerd
from tests.oci.layouts import CONFIG, LAYER, MANIFEST, Layout, tagged, tar

PROCESS = {
    "Env": ["PATH=/bin", "A=b"],
    "Entrypoint": ["vllm", "serve"],
    "WorkingDir": "/w",
    "Labels": {"org.opencontainers.image.title": "sm121-v8"},
}


def add_image(layout: Layout, tag: str, salt: bytes = b"", **more: Any) -> dict[str, Any]:
    """Store an image of a gzip, a zstd and a plain layer."""
    tars = [tar({f"f{n}": bytes([n]) * 50_000 + salt}) for n in range(3)]
    config = {
        "architecture": "arm64",
        "os": "linux",
        "created": "2026-01-01T00:00:00Z",
        "config": PROCESS,
        "rootfs": {"type": "layers", "diff_ids": [sha256(one) for one in tars]},
        "history": [{"created_by": f"step {n}"} for n in range(3)],
        **more,
    }
    layers = [
        layout.blob(gzip.compress(tars[0]), LAYER + "+gzip"),
        layout.blob(zstandard.compress(tars[1]), LAYER + "+zstd"),
        layout.blob(tars[2]),
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.json(config, CONFIG),
        "layers": layers,
    }
    return tagged(layout.json(manifest, MANIFEST), tag)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    layout = Layout(tmp_path / "images")
    v8 = add_image(layout, "sm121-v8")
    later = add_image(layout, "later", created="2026-02-02T00:00:00Z")
    other = add_image(layout, "other", salt=b"x")
    return layout.finish(v8, later, other)


def test_an_archive_of_plain_layers(images: Path, tmp_path: Path) -> None:
    image, layout = find_image(images, "sm121-v8")

    def blob(layer: Descriptor) -> Path:
        return layout.blob(layer.digest, layer.size)

    moved: list[int] = []
    with (tmp_path / "a.tar").open("wb") as out:
        write_archive(image, blob, "sm121-chain:sm121-v8", out, moved.append)
    assert sum(moved) == sum(layer.size for layer in image.layers)
    view = open_archive(tmp_path / "a.tar", "sm121-chain:sm121-v8")
    assert view.config_digest == image.config_descriptor.digest
    assert view.read_many(["f1"]) == {"f1": b"\1" * 50_000}
    subprocess.run(["tar", "tf", tmp_path / "a.tar"], check=True, capture_output=True)


def test_a_damaged_layer_gives_no_archive(images: Path) -> None:
    image, layout = find_image(images, "sm121-v8")
    wrong = layout.blob(image.layers[0].digest, image.layers[0].size)
    wrong.write_bytes(gzip.compress(b"x" * 10_240))
    out = io.BytesIO()
    with pytest.raises(Refusal, match="unpacks to"):
        write_archive(image, lambda layer: images / "blobs/sha256" / layer.digest[7:], "a:b", out,
                      lambda count: None)  # fmt: skip
    assert b"manifest.json" not in out.getvalue()


@pytest.mark.parametrize("number", [0, 1], ids=["gzip", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "spoiled"])
def test_a_layer_that_cannot_be_unpacked_is_refused(images: Path, number: int, damage: str) -> None:
    image, layout = find_image(images, "sm121-v8")
    path = layout.blob(image.layers[number].digest, image.layers[number].size)
    data = path.read_bytes()
    path.write_bytes(data[:-9] if damage == "cut" else data[:20] + b"x" * (len(data) - 20))
    with pytest.raises(Refusal, match=r"not a readable layer|unpacks to"):
        write_archive(image, lambda layer: images / "blobs/sha256" / layer.digest[7:], "a:b",
                      io.BytesIO(), lambda count: None)  # fmt: skip


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    if reason := missing():
        pytest.skip(reason)
    # The path of a socket has 108 bytes at most, and an overlay must not lie on another.
    with run_dockerd(Path(tempfile.mkdtemp(prefix="dkr"))) as host:
        if host is None:
            pytest.skip("dockerd does not come up here")
        yield host


def fingerprint_of(images: Path, tag: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["fingerprint", f"oci:{images}:{tag}"]) == 0
    return capsys.readouterr().out.split()[1]


def test_docker_shows_the_layouts_fingerprint(
    images: Path, daemon: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon)
    wanted = fingerprint_of(images, "sm121-v8", capsys)
    subject = f"oci:{images}:sm121-v8"
    assert main(["compare", subject, "here", "--runtime", "docker"]) == 1
    assert "here: unknown: no image there" in capsys.readouterr().out
    assert main(["load", subject, "--runtime", "docker"]) == 0
    assert capsys.readouterr().out == f"sm121-chain:sm121-v8 {wanted}\n"

    assert main(["compare", subject, "here", "--runtime", "docker"]) == 0
    out = capsys.readouterr().out
    assert "here: same image: equal config digest" in out and f"fingerprint {wanted}" in out
    # the same content with another config: passes, and is said
    assert main(["compare", f"oci:{images}:later", "here", "--runtime", "docker"]) == 0
    assert "here: same content, other image" in capsys.readouterr().out
    # another file under the same title
    assert main(["compare", f"oci:{images}:other", "here", "--runtime", "docker"]) == 1
    out = capsys.readouterr().out
    assert "here: different" in out and "layer 0: sha256:" in out
    # `docker save` and its archive are the same again
    saved = images.parent / "saved.tar"
    subprocess.run(["docker", "save", "-o", saved, "sm121-chain:sm121-v8"], check=True)
    assert main(["fingerprint", f"docker-archive:{saved}"]) == 0
    assert capsys.readouterr().out.split()[-1] == wanted


def test_hosts_over_ssh_are_asked_through_the_users_own_ssh(
    images: Path, tmp_path: Path, daemon: str, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A stand-in for ssh: it runs the command here, or fails as ssh does."""
    stand_in = tmp_path / "bin" / "ssh"
    stand_in.parent.mkdir()
    stand_in.write_text(
        "#!/bin/sh\n"
        'while [ "$1" = -o ]; do shift 2; done\n'
        '[ "$1" = away ] && { echo "ssh: connect to host away: No route to host" >&2; exit 255; }\n'
        '[ "$1" = bare ] && { echo "sh: docker: not found" >&2; exit 127; }\n'
        'shift; exec sh -c "$1"\n',
        encoding="utf-8",
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=os.pathsep)
    monkeypatch.setenv("DOCKER_HOST", daemon)
    subject = f"oci:{images}:sm121-v8"
    load = ["load", subject, "--host", "rank1", "--runtime", "docker", "--name", "me/x:v8"]
    assert main(load) == 0
    assert main(["compare", subject, "rank0", "rank1", "--runtime", "docker"]) == 0
    capsys.readouterr()
    assert main(["compare", subject, "rank0", "away", "bare", "--image", "me/x:v8"]) == 1
    out = capsys.readouterr().out
    assert "rank0: same image" in out
    assert "away: unknown: away cannot be reached" in out and "No route to host" in out
    assert "bare: unknown: no container runtime answers on bare" in out
    assert main(["compare", subject, "--", "-oProxyCommand=x"]) == 2
    assert main(["load", subject, "--host", "away"]) == 3


def shown(**more: Any) -> dict[str, Any]:
    layers = {"Layers": ["sha256:" + "1" * 64]}
    return {"Os": "linux", "Architecture": "arm64", "Config": PROCESS, "RootFS": layers, **more}


def test_28_every_runtimes_id_is_known_as_what_it_is() -> None:
    one, two = "a" * 64, "b" * 64
    docker = read_inspection(shown(Id=f"sha256:{one}"), "x").identity
    assert (docker.config, docker.manifest) == (f"sha256:{one}", "")
    store = shown(Id=f"sha256:{one}", Descriptor={"digest": f"sha256:{one}"})
    assert read_inspection(store, "x").identity.config == ""
    assert read_inspection(store, "x").identity.manifest == f"sha256:{one}"
    podman = read_inspection(shown(Id=one, Digest=f"sha256:{two}"), "x").identity
    assert (podman.config, podman.manifest) == (f"sha256:{one}", f"sha256:{two}")
    assert docker.fingerprint == podman.fingerprint != ""


def test_28_what_is_not_shown_is_unknown() -> None:
    nothing = read_inspection({"Id": "<none>", "RootFS": {}}, "x").identity
    assert nothing.fingerprint == nothing.config == "" and nothing.diff_ids == ()


def test_differences_are_named() -> None:
    one = read_inspection(shown(), "x").config
    changed = {**PROCESS, "Env": ["PATH=/bin", "A=c", "N=1"], "Cmd": ["x"], "Labels": {}}
    other = read_inspection(shown(Config=changed, Os="windows"), "y").config
    lines = differences(one, other)
    assert "os: linux and windows" in lines
    assert "Env A: b and c" in lines and "Env N: absent and 1" in lines
    assert "Cmd: None and ['x']" in lines
    assert any(line.startswith("Labels org.opencontainers.image.title") for line in lines)
    assert differences(one, one) == []
    reordered = {**PROCESS, "Env": ["A=b", "PATH=/bin"]}
    assert differences(one, read_inspection(shown(Config=reordered), "z").config) == [
        "Env: in another order"
    ]
    assert json.dumps(one)

"""Real podman, here and over a real ssh."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cli import main
from pipeline.oci.reading import find_image
from tests.hosts.real import needs_podman, needs_sshd, podman_store, run_sshd
from tests.hosts.test_load_compare import add_image, fingerprint_of
from tests.oci.layouts import Layout

pytestmark = needs_podman


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three images of gzip, zstd and plain layers; `later` differs in its config only."""
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    layout = Layout(tmp_path / "images")
    v8 = add_image(layout, "sm121-v8")
    later = add_image(layout, "later", created="2026-02-02T00:00:00Z")
    return layout.finish(v8, later, add_image(layout, "other", salt=b"x"))


@pytest.fixture
def podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    env = podman_store(tmp_path / "podman")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, podman: dict[str, str]) -> Iterator[Path]:
    with run_sshd(tmp_path / "sshd", podman) as directory:
        monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)
        yield directory


def test_podman_shows_the_layouts_fingerprint(
    images: Path, podman: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = fingerprint_of(images, "sm121-v8", capsys)
    subject = f"oci:{images}:sm121-v8"
    assert main(["compare", subject, "here", "--runtime", "podman"]) == 1
    assert "here: unknown: no image there" in capsys.readouterr().out
    assert main(["load", subject, "--runtime", "podman", "-q"]) == 0
    assert capsys.readouterr().out == f"sm121-chain:sm121-v8 {wanted}\n"
    assert main(["compare", subject, "here", "--runtime", "podman"]) == 0
    out = capsys.readouterr().out
    assert "here: same image: equal config digest" in out and f"fingerprint {wanted}" in out
    assert main(["compare", f"oci:{images}:later", "here", "--runtime", "podman"]) == 0
    assert "here: same content, other image" in capsys.readouterr().out
    assert main(["compare", f"oci:{images}:other", "here", "--runtime", "podman"]) == 1
    assert "here: different" in capsys.readouterr().out
    saved = tmp_path / "saved.tar"
    subprocess.run(["podman", "save", "-q", "-o", saved, "sm121-chain:sm121-v8"], check=True)
    assert main(["fingerprint", f"docker-archive:{saved}"]) == 0
    assert capsys.readouterr().out.split()[-1] == wanted


@needs_sshd
def test_ranks_over_ssh(images: Path, ssh: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = fingerprint_of(images, "sm121-v8", capsys)
    subject = f"oci:{images}:sm121-v8"
    load = ["load", subject, "--host", "rank1", "--runtime", "podman", "-q"]
    assert main([*load, "--name", "me/x:v8"]) == 0
    assert capsys.readouterr().out == f"me/x:v8 {wanted}\n"
    assert main(["compare", subject, "rank0", "rank1", "--runtime", "podman"]) == 0
    out = capsys.readouterr().out
    assert "rank0: same image" in out and "rank1: same image" in out
    assert main(["compare", subject, "rank0", "closed", "--runtime", "podman"]) == 1
    out = capsys.readouterr().out
    assert "closed: unknown: closed cannot be reached" in out and "refused" in out
    assert main([*load[:3], "closed", "--runtime", "podman"]) == 3
    assert main(["compare", subject, "rank0", "--runtime", "nerdctl"]) == 1
    assert "rank0: unknown: no container runtime answers on rank0" in capsys.readouterr().out


@needs_sshd
def test_an_archive_that_breaks_off_over_ssh_loads_nothing(
    images: Path, ssh: Path, podman: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage is seen on the way, when part of the archive is on the other side already."""
    image, layout = find_image(images, "sm121-v8")
    plain = layout.blob(image.layers[2].digest, image.layers[2].size)
    plain.write_bytes(bytes([plain.read_bytes()[0] ^ 1]) + plain.read_bytes()[1:])
    subject = f"oci:{images}:sm121-v8"
    assert main(["load", subject, "--host", "rank1", "--runtime", "podman", "-q"]) == 1
    assert "unpacks to" in capsys.readouterr().err
    assert main(["compare", subject, "rank1", "--runtime", "podman"]) == 1
    assert "no image there has this content or name" in capsys.readouterr().out

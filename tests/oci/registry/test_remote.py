"""Images that are looked into where they are."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.errors import Refusal
from pipeline.oci.image import sha256
from pipeline.oci.layer import LayerWriter
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.remote import find_remote, open_remote
from pipeline.oci.registry.store import BlobStore
from pipeline.subjects import identify_subject, open_subject, parse_subject
from tests.cases import generate, scripted
from tests.oci.layouts import CONFIG, INDEX, LAYER, MANIFEST, tar
from tests.oci.registry.conftest import client
from tests.oci.registry.real import needs_registry, needs_skopeo, run_registry
from tests.oci.registry.server import Registry


def put_image(registry: Registry, layers: list[tuple[bytes, str, str]]) -> str:
    """Store an image of (blob, media type, diff id) under the tag `latest`."""
    config = {
        "os": "linux",
        "architecture": "arm64",
        "config": {"Env": ["A=b"]},
        "rootfs": {"type": "layers", "diff_ids": [diff_id for _, _, diff_id in layers]},
    }
    data = json.dumps(config).encode()

    def described(blob: bytes, kind: str) -> dict[str, Any]:
        return {"mediaType": kind, "digest": registry.put(blob), "size": len(blob)}

    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(data, CONFIG),
        "layers": [described(blob, kind) for blob, kind, _ in layers],
    }
    return put_manifest(registry, manifest, MANIFEST)


def put_manifest(registry: Registry, document: dict[str, Any], kind: str) -> str:
    data = json.dumps(document).encode()
    registry.manifests[sha256(data)] = (data, kind)
    registry.tags["latest"] = sha256(data)
    return sha256(data)


def packed(data: bytes) -> tuple[bytes, str, str]:
    return gzip.compress(data, mtime=0), LAYER + "+gzip", sha256(data)


def test_of_an_image_only_what_is_needed_is_read(registry: Registry, tmp_path: Path) -> None:
    plain = tar({"a": b"one", "b": b"x" * 1_000_000})
    put_image(registry, [(plain, LAYER, sha256(plain)), packed(tar({"c": b"three"}))])
    subject = parse_subject(f"docker://{registry.host}/stack")
    assert identify_subject(subject).fingerprint.startswith("sha256:")
    view = open_subject(subject, tmp_path)
    assert view.config["architecture"] == "arm64" and len(view.layers) == 2
    assert len(registry.asked("GET .*blobs")) == 2  # the config, twice
    assert view.read_many(["a", "c"]) == {"a": b"one", "c": b"three"}
    assert len(registry.asked("GET .*blobs")) == 4

    # The indexes are kept. Without the blobs, a file of a plain layer comes by a range alone.
    for file in (tmp_path / "files" / "sha256").iterdir():
        file.unlink()
    registry.log.clear()
    again = open_subject(subject, tmp_path)
    assert "b" in again.tree.nodes and len(registry.asked("GET .*blobs")) == 1
    assert again.read_many(["a"]) == {"a": b"one"}
    assert [one[2] for one in registry.asked("GET .*blobs")] == [200, 206]


def test_our_own_layers_are_read_by_frames(registry: Registry, tmp_path: Path) -> None:
    blob = tmp_path / "layer"
    with LayerWriter(blob, epoch=0, level=1) as writer:
        writer.add_file("big", b"x" * 9_000_000, 9_000_000)
        writer.add_file("small", b"here", 4)
        index = writer.close()
    put_image(registry, [(blob.read_bytes(), index.media_type, index.diff_id)])
    repository, cache = client(registry, push=False), tmp_path / "cache"
    image = find_remote(repository, repository.reference)
    for _ in range(2):
        store = BlobStore(cache)
        view = open_remote(repository, image, store, index_cache=tmp_path / "indexes")
        assert view.read_many(["small"]) == {"small": b"here"}
        store.path(index.digest).unlink(missing_ok=True)
    assert [one[2] for one in registry.asked("GET .*blobs")][-1] == 206


@pytest.mark.parametrize("reference", ["", ":none", "@sha256:" + "0" * 64])
def test_what_is_not_there(registry: Registry, reference: str) -> None:
    subject = parse_subject(f"docker://{registry.host}/stack{reference}")
    with pytest.raises(Refusal, match="gone"):
        identify_subject(subject)


def test_an_index_leads_to_the_platform(registry: Registry) -> None:
    arm = put_image(registry, [packed(tar({"a": b"arm"}))])
    entries: list[dict[str, Any]] = [
        {"mediaType": MANIFEST, "digest": "sha256:" + "0" * 64, "size": 1,
         "platform": {"os": "linux", "architecture": "amd64"}},
        {"mediaType": MANIFEST, "digest": arm, "size": 1,
         "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
    ]  # fmt: skip
    put_manifest(registry, {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}, INDEX)
    identity = identify_subject(parse_subject(f"docker://{registry.host}/stack"))
    assert identity.manifest == arm


def test_a_config_of_another_image_is_refused(registry: Registry, tmp_path: Path) -> None:
    data = tar({"a": b"one"})
    put_image(registry, [(data, LAYER, "sha256:" + "1" * 64)])
    view = open_subject(parse_subject(f"docker://{registry.host}/stack"), tmp_path)
    with pytest.raises(Refusal, match="not as configured"):
        _ = view.tree


@pytest.mark.parametrize("name", ["a-moved", "b-moved-and-gone", "c-tag-deleted"])
def test_22_the_digest_decides(tmp_path: Path, name: str) -> None:
    case = generate("22", tmp_path / "22")
    locked = json.loads((case / "lock.json").read_bytes())["base"]
    with scripted("22", case / f"{name}.json") as (host, _):
        reference = parse_reference(locked.replace("127.0.0.1:PORT", host))
        subject = parse_subject(f"docker://{reference}")
        if name == "b-moved-and-gone":
            with pytest.raises(Refusal, match="digest-gone"):
                identify_subject(subject)
        else:
            assert identify_subject(subject).manifest == reference.digest


def test_22_wrong_bytes(tmp_path: Path) -> None:
    case = generate("22", tmp_path / "22")
    locked = json.loads((case / "lock.json").read_bytes())["base"]
    with scripted("22", case / "a-moved.json") as (host, state):
        reference = parse_reference(locked.replace("127.0.0.1:PORT", host))
        wrong = (case / "d-wrong-bytes" / "manifest.json").read_bytes()
        state.mans["vllm-openai"][reference.digest] = (wrong, MANIFEST)
        with pytest.raises(Refusal, match="digest-mismatch"):
            identify_subject(parse_subject(f"docker://{reference}"))


@needs_registry
@needs_skopeo
def test_23_28_skopeo_and_every_store_give_one_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One image as plain tar, gzip, Docker types, in a registry and in an archive."""
    case = generate("28", tmp_path / "28")
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    wanted = json.loads((case / "expected.json").read_bytes())
    subjects = [
        f"docker-archive:{case}/{name}" if name.endswith(".tar") else f"oci:{case}/{name}"
        for name in wanted["same_image"]
    ]
    with run_registry(tmp_path / "registry") as registry:
        for kind in ("oci", "v2s2"):
            place = f"docker://{registry.host}/{kind}:x"
            subprocess.run(
                ["skopeo", "copy", "--override-arch=arm64", "--dest-tls-verify=false",
                 f"--format={kind}", f"oci:{case}/a-oci-plain-tar:case", place],
                check=True, capture_output=True,
            )  # fmt: skip
            subjects.append(place)
        archive = tmp_path / "skopeo.tar"
        subprocess.run(
            ["skopeo", "copy", "--override-arch=arm64", "--src-tls-verify=false",
             f"docker://{registry.host}/oci:x", f"docker-archive:{archive}:x:y"],
            check=True, capture_output=True,
        )  # fmt: skip
        subjects.append(f"docker-archive:{archive}")
        assert main(["fingerprint", "-v", *subjects]) == 0
    out, err = capsys.readouterr()
    found = {line.rpartition(" ")[2] for line in out.splitlines()}
    assert len(out.splitlines()) == len(subjects) and len(found) == 1
    assert f"config {wanted['image_id']}" in err and "manifest unknown" in err
    others = wanted["same_files_other_image"] + wanted["different"]
    assert main(["fingerprint", *(f"oci:{case}/{name}" for name in others)]) == 0
    same, different = (line.rpartition(" ")[2] for line in capsys.readouterr().out.splitlines())
    assert {same} == found and different not in found
    assert main(["fingerprint", f"rootfs:{tmp_path}"]) == 2


def test_23_every_builders_index(tmp_path: Path) -> None:
    case = generate("23", tmp_path / "23")
    wanted = json.loads((case / "expected.json").read_bytes())["images"]
    for name, answer in wanted.items():
        subject = parse_subject(f"oci:{case}/{name}")
        if "manifest" in answer:
            assert identify_subject(subject).manifest == answer["manifest"], name
            continue
        with pytest.raises(Refusal, match="2 images" if "any_of" in answer else "no image"):
            identify_subject(subject)

"""`docker save` archives, of every maker, and wrong ones."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard

from pipeline.errors import Refusal, UsageError
from pipeline.oci.archive import open_archive
from pipeline.oci.reading import Platform, open_layout
from tests.oci.archives import MAKERS, config_of, docker_25, docker_legacy, podman, write
from tests.oci.layouts import Layout, tagged
from tests.oci.makelayer import Item, file, symlink, tar, whiteout

LAYERS = [
    tar([file("etc/a", "one"), file("etc/b", "two" * 5000)]),
    tar([file("x", "same")]),
    tar([file("x", "same")]),
    tar([whiteout("etc/a"), file("etc/c", "three")]),
]
CONFIG = config_of(LAYERS)
PACK = {"plain": bytes, "gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("maker", sorted(MAKERS))
def test_archives_of_every_maker(tmp_path: Path, maker: str) -> None:
    path = write(tmp_path / "a.tar", MAKERS[maker](CONFIG, LAYERS))
    for _ in range(2):  # the second time from the index cache
        view = open_archive(path, index_cache=tmp_path / "indexes")
        assert view.read_many(["etc/b", "etc/c", "x"]) == {
            "etc/b": b"two" * 5000,
            "etc/c": b"three",
            "x": b"same",
        }
        assert "etc/a" not in view.tree.nodes
        assert [layer.created_by for layer in view.layers] == [f"step {n}" for n in range(4)]
        assert view.config_digest == "sha256:" + hashlib.sha256(CONFIG).hexdigest()


@pytest.mark.parametrize("pack", sorted(PACK))
def test_layers_may_be_compressed(tmp_path: Path, pack: str) -> None:
    packed = [PACK[pack](layer) for layer in LAYERS]
    items = docker_legacy(CONFIG, packed)
    view = open_archive(write(tmp_path / "a.tar", items), index_cache=tmp_path / "indexes")
    assert view.read_many(["etc/c"]) == {"etc/c": b"three"}


def test_an_image_is_chosen_by_tag_by_place_and_by_platform(tmp_path: Path) -> None:
    entries, items = [], []
    for number, architecture in enumerate(("amd64", "arm64", "arm64")):
        layer = tar([file("number", str(number))])
        config = config_of([layer], architecture=architecture)
        items += [file(f"{number}.json", config), file(f"{number}/layer.tar", layer)]
        tags = [f"repo:{number}"] if number < 2 else ["local.host:5000/repo:latest"]
        entries.append({"Config": f"{number}.json", "RepoTags": tags, "Layers": [items[-1].name]})
    items.append(file("manifest.json", json.dumps(entries)))
    path = write(tmp_path / "a.tar", items)
    for reference, number in [("repo:1", b"1"), ("@2", b"2"), ("local.host:5000/repo", b"2")]:
        assert open_archive(path, reference).read_many(["number"]) == {"number": number}
    amd64 = Platform(architecture="amd64", variants=("",))
    assert open_archive(path, platform=amd64).read_many(["number"]) == {"number": b"0"}
    with pytest.raises(Refusal, match="2 images for linux/arm64"):
        open_archive(path)
    with pytest.raises(Refusal, match="no image for linux/arm64"):
        open_archive(path, "repo:0")
    with pytest.raises(UsageError, match="no such image") as caught:
        open_archive(path, "repo:9")
    assert "repo:0" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("pack", "tool"), [(gzip.compress, "gunzip"), (zstandard.ZstdCompressor().compress, "zstd -d")]
)
def test_a_compressed_archive_says_what_to_do(tmp_path: Path, pack: object, tool: str) -> None:
    path = tmp_path / "a.tar.x"
    path.write_bytes(pack(tar(docker_legacy(CONFIG, LAYERS))))  # type: ignore[operator]
    with pytest.raises(UsageError) as caught:
        open_archive(path)
    assert tool in (caught.value.hint or "")


def _with(items: list[Item], name: str, data: bytes | str) -> list[Item]:
    return [file(name, data) if item.name == name else item for item in items]


FAULTY: dict[str, tuple[list[Item], str]] = {
    "another layer": (
        _with(docker_legacy(CONFIG, LAYERS), "0/layer.tar", LAYERS[1]),
        "not what its name",
    ),
    "another config": (
        _with(podman(CONFIG, LAYERS), hashlib.sha256(CONFIG).hexdigest() + ".json", b"{}"),
        "not what its name says",
    ),
    "no layer": ([one for one in podman(CONFIG, LAYERS) if ".tar" not in one.name], "is not in it"),
    "broken layer": (
        _with(docker_legacy(CONFIG, LAYERS), "0/layer.tar", b"x" * 600),
        "not a readable layer",
    ),
    "manifest is no list": (_with(docker_25(CONFIG, LAYERS), "manifest.json", "{}"), "no list"),
    "manifest is no JSON": (_with(docker_25(CONFIG, LAYERS), "manifest.json", "{"), "not JSON"),
    "deep JSON": (_with(docker_25(CONFIG, LAYERS), "manifest.json", "[" * 100_000), "not JSON"),
    "odd entries": (_with(docker_25(CONFIG, LAYERS), "manifest.json", "[{}]"), "which is no file"),
    "no root file system": (
        [
            file("c.json", '{"os": "linux", "architecture": "arm64", "rootfs": 3}'),
            file("manifest.json", '[{"Config": "c.json", "Layers": []}]'),
        ],
        "no image config",
    ),
    "fewer layers": (
        [
            file("c.json", CONFIG),
            file("manifest.json", '[{"Config": "c.json", "Layers": [], "RepoTags": null}]'),
        ],
        "0 layers, but 4 diff ids",
    ),
    "links in a circle": (
        [
            symlink("manifest.json", "b"),
            symlink("b", "manifest.json"),
        ],
        "link without end",
    ),
    "a link out": ([symlink("manifest.json", "../../../etc/passwd")], "is not in it"),
}


@pytest.mark.parametrize("fault", sorted(FAULTY))
def test_faulty_archives_are_refused(tmp_path: Path, fault: str) -> None:
    items, message = FAULTY[fault]
    with pytest.raises(Refusal, match=message):
        open_archive(write(tmp_path / "a.tar", items))


@pytest.mark.parametrize("data", [b"", b"no tar at all" * 100, b"\0" * 1024])
def test_what_is_no_archive(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(data)
    with pytest.raises((Refusal, UsageError)):
        open_archive(path)
    with pytest.raises(UsageError):
        open_archive(tmp_path / "none.tar")
    with pytest.raises(UsageError):
        open_archive(tmp_path)


def test_a_truncated_archive(tmp_path: Path) -> None:
    whole = tar(docker_25(CONFIG, LAYERS))
    path = tmp_path / "a.tar"
    for cut in range(100, len(whole) - 11_000, 1777):
        path.write_bytes(whole[:cut])
        with pytest.raises((Refusal, UsageError)):
            open_archive(path)


@pytest.mark.skipif(not shutil.which("skopeo"), reason="skopeo is not installed")
def test_what_skopeo_saves(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    root = layout.finish(tagged(layout.image(LAYERS[:1]), "v1"))
    path = tmp_path / "saved.tar"
    subprocess.run(
        ["skopeo", "copy", "-q", f"oci:{root}:v1", f"docker-archive:{path}:case:1"],
        check=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
    )
    saved, own = open_archive(path, "case:1"), open_layout(root, "v1")
    assert saved.tree.nodes == own.tree.nodes
    assert [one.diff_id for one in saved.layers] == [one.diff_id for one in own.layers]


def in_a_tar(layout: Path, path: Path) -> Path:
    """Pack a layout's directory."""
    found = sorted(one for one in layout.rglob("*") if one.is_file())
    return write(path, [file(str(one.relative_to(layout)), one.read_bytes()) for one in found])


@pytest.mark.parametrize("pack", sorted(PACK))
def test_an_oci_layout_in_a_tar_is_read_as_one(tmp_path: Path, pack: str) -> None:
    layout = Layout(tmp_path / "layout")
    diff_ids = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in LAYERS]
    image = layout.image([PACK[pack](layer) for layer in LAYERS], diff_ids=diff_ids)
    other = layout.image([LAYERS[1]])
    layout.finish(tagged(image, "one"), tagged(other, "two"))
    path = in_a_tar(layout.root, tmp_path / "a.tar")
    for _ in range(2):  # the second time from the index cache
        view = open_archive(path, "one", index_cache=tmp_path / "indexes")
        assert view.read_many(["etc/c", "x"]) == {"etc/c": b"three", "x": b"same"}
        assert view.manifest_digest == image["digest"]
    with pytest.raises(UsageError, match="several images, name one"):
        open_archive(path)
    with pytest.raises(UsageError, match="no such image"):
        open_archive(path, "three")


def test_an_oci_layout_in_a_tar_is_held_against_its_digests(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "layout")
    image = layout.image(LAYERS)
    layout.finish(image)
    manifest = layout.blobs / image["digest"].removeprefix("sha256:")
    good = manifest.read_bytes()
    manifest.write_bytes(good + b" ")
    with pytest.raises(Refusal, match="not what its name says"):
        open_archive(in_a_tar(layout.root, tmp_path / "a.tar"))
    manifest.write_bytes(good)
    layer = layout.blobs / hashlib.sha256(LAYERS[0]).hexdigest()
    layer.write_bytes(LAYERS[1])
    with pytest.raises(Refusal, match="not what its name says"):
        open_archive(in_a_tar(layout.root, tmp_path / "b.tar"))
    layer.unlink()
    with pytest.raises(Refusal, match="has no blob"):
        open_archive(in_a_tar(layout.root, tmp_path / "c.tar"))


def test_a_compressed_layer_under_its_digest_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = [gzip.compress(layer) for layer in LAYERS]
    path = write(tmp_path / "a.tar", docker_25(CONFIG, packed))
    first = open_archive(path, index_cache=tmp_path / "indexes")

    def never(*args: object) -> None:
        raise AssertionError("a layer was read again")

    monkeypatch.setattr("pipeline.oci.reading.index_blob", never)
    monkeypatch.setattr("pipeline.oci.archive.index_blob", never)
    del first
    assert open_archive(path, index_cache=tmp_path / "indexes").tree.nodes.keys() >= {"etc/b"}


@pytest.mark.skipif(shutil.which("skopeo") is None, reason="skopeo is not installed")
@pytest.mark.parametrize("transport", ["docker-archive", "oci-archive"])
def test_what_skopeo_writes(tmp_path: Path, transport: str) -> None:
    layout = Layout(tmp_path / "layout")
    layers = list(dict.fromkeys(LAYERS))
    layout.finish(tagged(layout.image(layers), "t"))
    path = tmp_path / "saved.tar"
    name = f"{transport}:{path}:" + ("host.invalid/case:1" if transport[0] == "d" else "case")
    command = ["skopeo", "--insecure-policy", "--override-arch", "arm64", "copy", "-q"]
    done = subprocess.run(
        [*command, f"oci:{layout.root}:t", name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    view = open_archive(path)
    assert view.read_many(["etc/c", "x"]) == {"etc/c": b"three", "x": b"same"}


def test_an_archive_of_old_docker_is_refused_with_a_way_out(tmp_path: Path) -> None:
    items = [file("repositories", '{"case":{"1":"0"}}'), file("0/json", "{}"), file("0/layer.tar")]
    with pytest.raises(UsageError, match=r"Docker before 1\.10") as error:
        open_archive(write(tmp_path / "a.tar", items))
    assert "docker save" in str(error.value.hint)

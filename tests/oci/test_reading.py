"""Images out of layouts of any maker, and layouts that are damaged."""

from pathlib import Path

import pytest

from pipeline.errors import Refusal, UsageError
from pipeline.oci.reading import open_layout
from tests.oci.layouts import INDEX, MANIFEST, Descriptor, Layout, digest, tagged, tar

DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "layout")


def platform(layout: Layout, architecture: str, variant: str = "") -> Descriptor:
    """An image that holds a file named after its platform, with the platform in its descriptor."""
    name = architecture + variant
    place = {"os": "linux", "architecture": architecture}
    if variant:
        place["variant"] = variant
    return {**layout.image([tar({name: b""})], platform=place), "platform": place}


def attestation(layout: Layout) -> Descriptor:
    """What buildkit puts beside an image: a manifest of statements."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": layout.blob(b"{}"),
        "layers": [layout.blob(b'{"_type":"statement"}', "application/vnd.in-toto+json")],
    }
    return {
        **layout.json(manifest, MANIFEST),
        "platform": {"os": "unknown", "architecture": "unknown"},
        "annotations": {"vnd.docker.reference.type": "attestation-manifest"},
    }


@pytest.mark.parametrize(
    ("plan", "found"),
    [
        (["amd64", "arm64", "attestation", "attestation"], "arm64"),
        (["amd64", "arm64v8", "attestation"], "arm64v8"),
        (["attestation", "arm64"], "arm64"),
        (["amd64", "attestation"], None),
        (["arm64", "arm64v8"], None),
        (["arm64v9"], None),
    ],
)
@pytest.mark.parametrize("media_type", [INDEX, DOCKER_LIST, "flat"])
def test_23_index_attestation_variant(
    layout: Layout, plan: list[str], found: str | None, media_type: str
) -> None:
    entries = [
        attestation(layout) if name == "attestation" else platform(layout, name[:5], name[5:])
        for name in plan
    ]
    if media_type == "flat":
        root = layout.finish(*entries)
    else:
        root = layout.finish(tagged(layout.index(entries, media_type), "case"))
    if found is None:
        with pytest.raises(Refusal, match="for linux/arm64"):
            open_layout(root)
    else:
        assert list(open_layout(root).tree.nodes) == [found]


def test_23_without_a_platform_in_the_descriptor_the_config_decides(layout: Layout) -> None:
    image = platform(layout, "arm64", "v8")
    del image["platform"]
    assert list(open_layout(layout.finish(image)).tree.nodes) == ["arm64v8"]
    image = platform(layout, "amd64")
    del image["platform"]
    with pytest.raises(Refusal, match="no image for linux/arm64"):
        open_layout(layout.finish(image))


def test_tags_choose_and_a_wrong_one_lists_those_that_are_there(layout: Layout) -> None:
    one, two = (layout.image([tar({name: b""})]) for name in ("one", "two"))
    root = layout.finish(tagged(one, "v1"), tagged(two, "v2"))
    assert list(open_layout(root, "v2").tree.nodes) == ["two"]
    with pytest.raises(UsageError, match="no tag 'v3'") as caught:
        open_layout(root, "v3")
    assert caught.value.hint == "tags there: v1, v2"
    with pytest.raises(UsageError, match="several tags"):
        open_layout(root)


def test_layers_are_named_by_history_without_its_empty_steps(layout: Layout) -> None:
    history = [
        {"created_by": "ADD"},
        {"created_by": "ENV", "empty_layer": True},
        {"created_by": "X"},
    ]
    image = layout.image([tar({"a": b""}), tar({"b": b""})], history=history)
    view = open_layout(layout.finish(image))
    assert [layer.created_by for layer in view.layers] == ["ADD", "X"]
    assert view.config["architecture"] == "arm64"


def damage_missing(layout: Layout, image: Descriptor) -> None:
    next(path for path in layout.blobs.iterdir() if b"os-release" in path.read_bytes()).unlink()


def damage_layer(layout: Layout, image: Descriptor) -> None:
    path = next(path for path in layout.blobs.iterdir() if b"os-release" in path.read_bytes())
    path.write_bytes(path.read_bytes().replace(b"ID=debian", b"ID=ubuntu"))


def damage_size(layout: Layout, image: Descriptor) -> None:
    path = next(path for path in layout.blobs.iterdir() if b"os-release" in path.read_bytes())
    path.write_bytes(path.read_bytes() + b"\0")


def damage_manifest(layout: Layout, image: Descriptor) -> None:
    path = layout.blobs / image["digest"].removeprefix("sha256:")
    path.write_bytes(path.read_bytes().replace(b"schemaVersion", b"schemaVersiom"))


def damage_index(layout: Layout, image: Descriptor) -> None:
    (layout.root / "index.json").write_text("{}", encoding="utf-8")


def damage_digest(layout: Layout, image: Descriptor) -> None:
    layout.finish({**image, "digest": "sha256:../../../../etc/passwd"})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_missing, "is missing"),
        (damage_layer, "not what its name says"),
        (damage_size, "size differs"),
        (damage_manifest, "not what its name says"),
        (damage_index, "no list of manifests"),
        (damage_digest, "is no sha256 digest"),
    ],
)
def test_a_damaged_layout_is_refused(layout: Layout, damage: object, words: str) -> None:
    image = layout.image()
    root = layout.finish(image)
    damage(layout, image)  # type: ignore[operator]
    with pytest.raises(Refusal, match=words):
        open_layout(root)


def test_diff_ids_are_checked(layout: Layout) -> None:
    image = layout.image(diff_ids=[digest(b"other")])
    with pytest.raises(Refusal, match="layer 0 unpacks to"):
        open_layout(layout.finish(image))
    image = layout.image(diff_ids=[digest(b"a"), digest(b"b")])
    with pytest.raises(Refusal, match="1 layers, but 2 diff ids"):
        open_layout(layout.finish(image))


def test_an_index_that_holds_itself_ends(layout: Layout) -> None:
    inner = layout.image()
    for _ in range(6):
        inner = layout.index([inner])
    with pytest.raises(Refusal, match="without end"):
        open_layout(layout.finish(inner))


def test_a_directory_that_is_no_layout(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no index\.json"):
        open_layout(tmp_path)


def test_layer_indexes_are_kept_and_a_faulty_one_is_made_again(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = layout.root.parent / "indexes"
    root = layout.finish(layout.image())
    tree = open_layout(root, index_cache=cache).tree
    (kept,) = cache.iterdir()
    good = kept.read_bytes()
    older = good.partition(b"\n")[2].replace(b'"format":1', b'"format":0')
    older = digest(older).removeprefix("sha256:").encode() + b"\n" + older
    for faulty in (b"", b"{}", good[:-1], older, good.replace(b"os-release", b"os-raleese")):
        kept.write_bytes(faulty)
        assert open_layout(root, index_cache=cache).tree == tree
        assert kept.read_bytes() == good
    # What is kept is used: the layer is not read again.
    monkeypatch.setattr("pipeline.oci.reading.index_blob", None)
    assert open_layout(root, index_cache=cache).tree == tree

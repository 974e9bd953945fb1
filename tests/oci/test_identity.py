"""Case 28: one image in several containers and stores has several ids."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pipeline.oci.archive import open_archive
from pipeline.oci.identity import Identity, Relation, compare, identify, known_digest
from pipeline.oci.reading import open_layout
from tests.oci.archives import config_of, docker_legacy, write
from tests.oci.layouts import CONFIG, LAYER, MANIFEST, Layout
from tests.oci.makelayer import file, tar

DOCKER = "application/vnd.docker."
TARS = [tar([file("alpha.py", "x = 1\n" * 400)]), tar([file("beta", "2.0")])]
PLAIN = config_of(TARS, config={"Env": ["A=b"], "Cmd": None})


def layout(root: Path, config: bytes = PLAIN, level: int = -1, *, docker: bool = False) -> Identity:
    """An image as an OCI layout; with a level, its layers are gzip."""
    made = Layout(root)
    kind = LAYER + "+gzip" if level >= 0 else LAYER
    kind = DOCKER + "image.rootfs.diff.tar.gzip" if docker else kind
    layers = [gzip.compress(one, level, mtime=0) if level >= 0 else one for one in TARS]
    manifest = {
        "schemaVersion": 2,
        "mediaType": DOCKER + "distribution.manifest.v2+json" if docker else MANIFEST,
        "config": made.blob(config, DOCKER + "container.image.v1+json" if docker else CONFIG),
        "layers": [made.blob(one, kind) for one in layers],
    }
    return identify(open_layout(made.finish(made.json(manifest, manifest["mediaType"]))))


def test_28_one_image_several_ids(tmp_path: Path) -> None:
    a = layout(tmp_path / "a")
    same = [
        layout(tmp_path / "b", level=1),
        layout(tmp_path / "c", level=9),
        layout(tmp_path / "d", level=0, docker=True),
        identify(open_archive(write(tmp_path / "e.tar", docker_legacy(PLAIN, TARS)))),
    ]
    assert len({one.manifest for one in (a, *same)}) == 5  # an archive's is not known
    for one in same:
        assert compare(a, one) is compare(one, a) is Relation.SAME_IMAGE
        assert one.fingerprint == a.fingerprint


def test_28_same_files_in_another_image(tmp_path: Path) -> None:
    a = layout(tmp_path / "a")
    created = json.loads(PLAIN) | {"created": "2026-08-28T00:00:00Z"}
    f = layout(tmp_path / "f", json.dumps(created).encode())
    assert (f.config != a.config, f.fingerprint) == (True, a.fingerprint)
    assert compare(a, f) is Relation.SAME_CONTENT
    other_env = json.loads(PLAIN) | {"config": {"Env": ["A=c"]}}
    h = layout(tmp_path / "h", json.dumps(other_env).encode())
    assert compare(a, h) is Relation.SAME_FILES


def test_28_another_file_is_another_image(tmp_path: Path) -> None:
    a = layout(tmp_path / "a")
    other = [TARS[0], tar([file("beta", "2.1")])]
    g = identify(open_archive(write(tmp_path / "g", docker_legacy(config_of(other), other))))
    assert compare(a, g) is Relation.DIFFERENT


def test_28_two_sides_that_show_nothing_are_unknown(tmp_path: Path) -> None:
    nothing = Identity("one", config=known_digest("<none>"))
    assert compare(nothing, Identity("other")) is Relation.UNKNOWN
    assert compare(nothing, layout(tmp_path / "a")) is Relation.UNKNOWN
    one, other = "sha256:" + "a" * 64, "sha256:" + "b" * 64
    assert compare(Identity("", manifest=one), Identity("", manifest=one)) is Relation.SAME_IMAGE
    # Other manifests may be one image: only compression need differ.
    assert compare(Identity("", manifest=one), Identity("", manifest=other)) is Relation.UNKNOWN
    assert compare(Identity("", config=one), Identity("", config=other)) is Relation.DIFFERENT


@pytest.mark.parametrize("text", [None, "", "<none>", "none", "sha256:abc", "a" * 64])
def test_28_what_is_no_digest_is_not_known(text: str | None) -> None:
    assert known_digest(text) == ""


def test_28_every_id_is_shown_with_its_kind(tmp_path: Path) -> None:
    a = layout(tmp_path / "a")
    assert a.lines() == [f"fingerprint {a.fingerprint}", f"config {a.config}",
                         f"manifest {a.manifest}"]  # fmt: skip
    assert Identity("x").lines()[2] == "manifest unknown"

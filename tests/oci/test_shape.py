"""Documents of an image whose members are of another kind than the specification says."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import Refusal
from pipeline.oci.selection import parse_manifests
from pipeline.oci.shape import check_config
from pipeline.subjects import open_subject, parse_subject
from tests.oci.archives import MAKERS, config_of, write
from tests.oci.layouts import CONFIG, MANIFEST, Layout, tar

SOUND: dict[str, Any] = {
    "architecture": "arm64",
    "os": "linux",
    "config": {"Env": ["A=b"], "Labels": {"a": "b"}, "Cmd": ["x"], "Entrypoint": "x", "User": ""},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:0"]},
    "history": [{"created_by": "a", "empty_layer": True}],
}
ODD = [0, 1.5, True, "x", [None], [["x"]], [{}], {}, {"a": None}, {"a": {}}]
# Where a value of ODD is none that a config may have there.
WRONG = [
    (place, value)
    for place, right in {
        ("architecture",): (str,),
        ("os",): (str,),
        ("config",): (dict,),
        ("config", "Env"): (),
        ("config", "Cmd"): (str,),
        ("config", "Labels"): (),
        ("config", "User"): (str,),
        ("rootfs",): (),
        ("rootfs", "diff_ids"): (),
        ("history",): (),
        ("history", 0): (dict,),
        ("history", 0, "created_by"): (str,),
        ("history", 0, "empty_layer"): (bool,),
    }.items()
    for value in ODD
    if type(value) not in right and not (value == {} and place[-1] == "Labels")
    if place != ("history",) or value != [{}]
]


def changed(place: tuple[str | int, ...], value: object) -> dict[str, Any]:
    document = copy.deepcopy(SOUND)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return document


@pytest.mark.parametrize(("place", "value"), WRONG, ids=str)
def test_a_config_that_is_none_is_refused(place: tuple[str | int, ...], value: object) -> None:
    with pytest.raises(Refusal, match=r"^i: its config is no image config: \S") as caught:
        check_config(changed(place, value), "i", "next")
    assert str(place[-1]) in caught.value.message and caught.value.hint == "next"


@pytest.mark.parametrize("place", [("config",), ("history",), ("config", "Env"), ("os",)], ids=str)
def test_null_is_as_absent(place: tuple[str | int, ...]) -> None:
    assert check_config(changed(place, None), "i", "")
    with pytest.raises(Refusal, match="no JSON object"):
        check_config(None, "i", "")


@pytest.mark.parametrize("kind", ["oci", *MAKERS])
def test_every_reader_asks(tmp_path: Path, kind: str) -> None:
    plain, config = tar({"a": b"1"}), {"Labels": ["a=b"]}
    if kind == "oci":
        layout = Layout(tmp_path / "l")
        layer = layout.blob(plain)
        document = {**SOUND, "rootfs": {"diff_ids": [layer["digest"]]}, "config": config}
        described = layout.json(document, CONFIG)
        layout.finish(layout.json({"config": described, "layers": [layer]}, MANIFEST))
        subject = f"oci:{layout.root}"
    else:
        made = MAKERS[kind](config_of([plain], config=config), [plain])
        subject = f"docker-archive:{write(tmp_path / 'a.tar', made)}"
    with pytest.raises(Refusal, match=r"config\.Labels is no object of texts"):
        open_subject(parse_subject(subject), tmp_path / "cache")


@pytest.mark.parametrize("key", ["platform", "annotations"])
@pytest.mark.parametrize("value", [1, True, "x", ["x"]], ids=str)
def test_descriptors_that_are_none_are_refused(key: str, value: object) -> None:
    with pytest.raises(Refusal, match=rf"manifests\[0\]\.{key} is no object"):
        parse_manifests({"manifests": [{key: value}]}, "index.json")
    assert parse_manifests({"manifests": [{key: None}]}, "index.json")

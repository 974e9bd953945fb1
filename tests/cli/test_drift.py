"""The verb `drift`: every kind of subject, a line, the tags of a repository, the exit status."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.cli import main
from tests.audit.images import distribution
from tests.line import Line, built_line, entered
from tests.oci.archives import MAKERS, config_of, write
from tests.oci.layouts import Layout, digest, tagged, tar
from tests.oci.registry.server import Registry

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A line with its dist/, made once."""
    scratch = tmp_path_factory.mktemp("drift")
    return built_line(scratch)


@pytest.fixture
def line(built: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    return entered(built, tmp_path, monkeypatch)


def document(capsys: Capture, *args: str) -> Any:
    status = main(["drift", *args, "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert status == (found["worst"] == "error")
    return found


def test_a_stage_that_moves_a_pin_says_so_and_is_meant(line: Line, capsys: Capture) -> None:
    found = document(capsys, "v1", "v3")
    (change,) = found["changes"]
    assert (change["name"], change["direction"]) == ("flashinfer-python", "up")
    assert (change["before"], change["after"]) == ("0.6.17", "0.6.18")
    assert change["layer"]["stage"] == "v3" and change["reason"] == "v3 installs it from the lock"
    assert change["family"] == "flashinfer" and change["gpu"] is True and change["rank"] == 0
    assert found["worst"] == "note" and found["base_changed"] is False
    assert [one["stage"] for one in found["layers"]["new"]] == ["v3"]
    assert found["files"] == []


def test_a_patch_is_a_change_inside_an_unchanged_version(line: Line, capsys: Capture) -> None:
    found = document(capsys, "base", "v1")
    (change,) = found["changes"]
    assert (change["name"], change["direction"]) == ("vllm", "files-changed")
    (path,) = change["files"]["changed"]
    assert path.endswith("/vllm/model.py") and change["reason"] == "v1: scale"
    assert found["worst"] == "note"


def test_backwards_nothing_explains_it(line: Line, capsys: Capture) -> None:
    assert main(["drift", "v4", "v1"]) == 1
    out = capsys.readouterr().out
    assert "error  ▼ down  flashinfer-python  0.6.18 → 0.6.17" in out


def test_a_held_stage_is_its_ancestor(line: Line, capsys: Capture) -> None:
    assert main(["drift", "v4", "v9"]) == 0
    assert "no package moved" in capsys.readouterr().out


def test_the_line_is_one_matrix(line: Line, capsys: Capture) -> None:
    found = document(capsys, "--line", "")
    assert [one["name"] for one in found["columns"]] == ["base", "v1", "v3", "v4", "v9"]
    assert [one["parent"] for one in found["columns"]] == [None, "base", "v1", "v3", "v4"]
    assert [one["state"] for one in found["columns"]] == ["built"] * 4 + ["held"]
    rows = {one["name"]: one for one in found["rows"]}
    assert rows["flashinfer-python"]["versions"] == ["0.6.17"] * 2 + ["0.6.18"] * 3
    moved = [one and one["direction"] for one in rows["flashinfer-python"]["changes"]]
    assert moved == [None, None, "up", "files-changed", None]
    assert [row["name"] for row in found["rows"]][:2] == ["flashinfer-python", "vllm"]
    assert all(len(row["versions"]) == len(row["changes"]) == 5 for row in found["rows"])
    assert main(["drift", "--line", ""]) == 0
    text = capsys.readouterr().out
    assert "▲ 0.6.18" in text and "v9 held: the base has it" in text


def test_the_tags_of_a_repository_are_one_matrix(
    line: Line, registry: Registry, capsys: Capture
) -> None:
    for stage, tag in (("v4", "v10"), ("base", "v2"), ("v3", "v9"), ("v3", "again")):
        assert main(["push", stage, f"{registry.host}/chain", "-q"]) == 0
        pushed = capsys.readouterr().out.split("@")[-1].split()[0]
        registry.tags[tag] = pushed
    found = document(capsys, "--tags", f"{registry.host}/chain")
    assert [one["name"] for one in found["columns"]] == ["again, v9", "v2", "v10"]
    row = next(one for one in found["rows"] if one["name"] == "flashinfer-python")
    assert row["versions"] == ["0.6.18", "0.6.17", "0.6.18"]
    assert [one and one["direction"] for one in row["changes"]] == [None, "down", "up"]


def test_a_lock_is_a_side(line: Line, capsys: Capture) -> None:
    assert document(capsys, "pins.toml#v3", "v3")["changes"] == []
    (change,) = document(capsys, "pins.toml#v1", "v3")["changes"]
    assert (change["name"], change["direction"]) == ("flashinfer-python", "up")
    assert document(capsys, "pins.toml#v1", "pins.toml#v1")["changes"] == []


def test_layers_are_told_of_where_both_sides_have_some(line: Line, capsys: Capture) -> None:
    for before, told in (("pins.toml#v1", False), ("v1", True)):
        main(["drift", before, "v3", "--fail-on", "never"])
        assert ("layers: " in capsys.readouterr().out) is told


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["v1"], "drift compares two subjects, and 1 are given"),
        ([], "drift compares two subjects, and 0 are given"),
        (["v1", "v3", "v4"], "and 3 are given"),
        (["v1", "v77"], "no stage 'v77'"),
        (["v1", "oci:nothing"], "no OCI image layout there"),
        (["v1", "nothing.toml"], "nothing.toml: No such file"),
        (["v1", "other.toml#v1"], "a stage is named of a lock of the project only"),
        (["v1", "--tags", "host.invalid/x"], "--tags takes no subjects"),
        (["--line", "other"], "stages/other: no stages"),
    ],
)
def test_what_cannot_be_compared_is_one_error(
    line: Line, args: list[str], text: str, capsys: Capture
) -> None:
    assert main(["drift", *args]) == 2
    out, err = capsys.readouterr()
    assert out == "" and text in err and "next: " in err and "Traceback" not in err


Pack = Callable[[bytes], bytes]
PACKINGS: dict[str, Pack] = {
    "plain": lambda data: data,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor().compress,
}


def images() -> tuple[list[bytes], list[bytes]]:
    """The layers of two images: the second takes NCCL down, edits vLLM, and adds a package."""
    torch = distribution("torch", "2.13.0", requires=["nvidia-nccl-cu13==2.29.7"])
    nccl = distribution("nvidia-nccl-cu13", "2.30.7")
    vllm = distribution("vllm", "0.30.0", {"vllm/a.py": "1"})
    first = {**torch, **nccl, **vllm}
    gone = {path.rpartition("/")[0] for path in nccl}
    second: dict[str, Any] = {
        **{f"{path.rpartition('/')[0]}/.wh.{path.rpartition('/')[2]}": b"" for path in gone},
        **distribution("nvidia-nccl-cu13", "2.29.7"),
        **distribution("zipp", "3"),
        next(path for path in vllm if path.endswith("a.py")): b"2",
    }
    return [tar(first)], [tar(first), tar(second)]


WANTED = {
    "nvidia-nccl-cu13": "down",
    "vllm": "files-changed",
    "zipp": "added",
}


def subject(root: Path, kind: str, packing: str, name: str, layers: list[bytes]) -> str:
    packed = [PACKINGS[packing](layer) for layer in layers]
    if kind == "oci":
        layout = Layout(root / f"{name}-oci")
        layout.finish(
            tagged(layout.image(packed, diff_ids=[digest(layer) for layer in layers]), "t")
        )
        return f"oci:{root / f'{name}-oci'}"
    path = root / f"{name}.tar"
    write(path, MAKERS[kind](config_of(layers), packed))
    return f"docker-archive:{path}"


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("kind", ["oci", *MAKERS])
def test_14_every_kind_of_subject_shows_the_same_drift(
    tmp_path: Path, kind: str, packing: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    one, other = images()
    before = subject(tmp_path, kind, packing, "a", one)
    after = subject(tmp_path, kind, packing, "b", other)
    found = document(capsys, before, after)
    assert {change["name"]: change["direction"] for change in found["changes"]} == WANTED
    assert [layer["number"] for layer in found["layers"]["new"]] == [1]
    assert found["worst"] == "error"
    # What is known of the layers now gives the same answer.
    assert document(capsys, before, after) == found


def test_14_an_unpacked_tree_shows_the_same_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    one, other = images()
    write(tmp_path / "b.tar", MAKERS["podman"](config_of(other), other))
    for path, data in _files(one).items():
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    found = document(capsys, "rootfs:tree", "docker-archive:b.tar")
    assert {change["name"]: change["direction"] for change in found["changes"]} == WANTED
    assert found["before"]["kind"] == "tree" and found["base_changed"] is None


def _files(layers: list[bytes]) -> dict[str, bytes]:
    found = {}
    with tarfile.open(fileobj=io.BytesIO(layers[0])) as archive:
        for member in archive:
            if (file := archive.extractfile(member)) is not None:
                found[member.name] = file.read()
    return found


def test_a_damaged_cache_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    one, other = images()
    before = subject(tmp_path, "oci", "zstd", "a", one)
    after = subject(tmp_path, "oci", "zstd", "b", other)
    found = document(capsys, before, after)
    kept = list((tmp_path / "cache" / "metadata").iterdir())
    assert len(kept) == 2
    for path in kept:
        path.write_bytes(path.read_bytes().replace(b"2.30.7", b"2.30.8"))
    assert document(capsys, before, after) == found
    other_format = b'{"format":0,"rows":[["METADATA"]]}'
    first = hashlib.sha256(other_format).hexdigest().encode()
    for path in kept:
        path.write_bytes(first + b"\n" + other_format)
    assert document(capsys, before, after) == found

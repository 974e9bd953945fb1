"""The verb `audit`: subjects, locks, formats and exit status."""

import json
from pathlib import Path

import pytest

from pipeline.cli import main
from tests.audit.images import SITE, distribution
from tests.oci.archives import config_of, docker_legacy, write
from tests.oci.layouts import Layout, tagged, tar

LOCK = """lock-version = "1.0"
created-by = "test"
[[packages]]
name = "a"
version = "{version}"
wheels = [{{ path = "a-{version}-py3-none-any.whl", hashes = {{ sha256 = "ab" }} }}]
"""


SUBJECTS = [
    "oci:images",
    "oci:images:v1",
    "docker-archive:saved.tar",
    "docker-archive:saved.tar:case:1",
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a layout, a tree and two lock files, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    files = {path: data for path, data in distribution("a", "1").items() if isinstance(data, bytes)}
    layout = Layout(tmp_path / "images")
    layout.finish(tagged(layout.image([tar(files)]), "v1"))
    layers = [tar(files)]
    write(tmp_path / "saved.tar", docker_legacy(config_of(layers), layers))
    for path, data in files.items():
        target = tmp_path / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    for name, version in (("good", "1"), ("other", "2")):
        (tmp_path / f"{name}.toml").write_text(LOCK.format(version=version), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("subject", [*SUBJECTS, "rootfs:tree"])
@pytest.mark.parametrize(("lock", "status"), [("good.toml", 0), ("other.toml", 1)])
def test_the_exit_status_says_whether_there_is_an_error(
    subject: str, lock: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", subject, "--against", lock]) == status
    out, err = capsys.readouterr()
    assert f"1 distributions against {lock}" in out and err == ""
    assert ("pin-downgraded" in out) == bool(status)


def test_without_a_lock_the_image_is_held_against_itself_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", "rootfs:tree"]) == 0
    assert "pins are not judged" in capsys.readouterr().out
    (place / "tree" / SITE / "a-1.dist-info" / "INSTALLER").write_bytes(b"somebody\n")
    assert main(["audit", "rootfs:tree"]) == 1


def test_json_goes_to_stdout_or_to_a_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["audit", "oci:images", "--against", "other.toml", "--format", "json"]
    assert main(call) == 1
    document = json.loads(capsys.readouterr().out)
    assert [one["rule"] for one in document["findings"]] == ["pin-downgraded"]
    assert main([*call, "--output", "report.json"]) == 1
    assert capsys.readouterr().out == ""
    assert json.loads((place / "report.json").read_text(encoding="utf-8")) == document


def test_quiet_is_the_exit_status_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "oci:images", "--against", "other.toml", "-q"]) == 1
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("call", "status", "words"),
    [
        (["oci:images:v2"], 2, "tags there: v1"),
        (["oci:tree"], 2, "no OCI image layout"),
        (["rootfs:none"], 2, "no such directory"),
        (["docker://X"], 2, "next:"),
        (["rootfs:tree", "--against", "none.toml"], 2, "No such file"),
        (["rootfs:tree", "--against", "v1"], 2, "pins.toml"),
        (["v1"], 2, "pins.toml"),
        (["rootfs:tree", "--output", "none/report"], 3, "none is no directory"),
    ],
)
def test_errors_have_a_status_and_one_line(
    call: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["audit", *call]) == status
    out, err = capsys.readouterr()
    assert out == "" and words in err
    assert err.startswith("error: ")


def test_a_damaged_layout_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for blob in (place / "images" / "blobs" / "sha256").iterdir():
        blob.write_bytes(b"")
    assert main(["audit", "oci:images"]) == 1
    assert "size differs" in capsys.readouterr().err

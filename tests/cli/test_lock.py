"""The verb `lock`: what it prints, what it writes, and its exit status."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import tomlkit

from pipeline.cli import lock as verb
from pipeline.cli import main
from pipeline.resolve import find_uv
from pipeline.wheels.house import Wheelhouse, default_cache

ROOT = Path(__file__).parents[2]
SOUND = ROOT / "tests" / "fixtures" / "locks" / "sound.toml"
STAGES = {
    "v1": ("base", ""),
    "v3": ("v1", "v3"),
    "v4": ("v3", "v4"),
}


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a day on which no review is due."""
    monkeypatch.setenv("SM121_CHAIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(verb, "_now", lambda: datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the sound lock and three stages; the working directory."""
    place = tmp_path / "project"
    (place / "stages").mkdir(parents=True)
    text = SOUND.read_text(encoding="utf-8")
    (place / "pins.toml").write_text(text, encoding="utf-8", newline="\n")
    for name, (parent, group) in STAGES.items():
        lines = [f'name = "{name}"', 'title = "t"', 'why = "w"', f'parent = "{parent}"']
        lines += [f'tag = "{name}"', *([f'environment = "{group}"'] if group else [])]
        (place / "stages" / f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.chdir(place)
    return place


def test_check_of_this_projects_lock(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["lock", "--check"]) == 0
    golden = ROOT / "tests" / "golden" / "lock-check.txt"
    assert capsys.readouterr().out == golden.read_text(encoding="utf-8")


def test_check_ends_with_1_when_something_is_wrong(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (project / "pins.toml").read_text(encoding="utf-8")
    text = text.replace('requirement = "comms==2.0"', 'requirement = "comms==2.1"')
    (project / "pins.toml").write_text(text, encoding="utf-8")
    assert main(["lock", "--check"]) == 1
    assert "error   ledger-not-in-lock: comms==2.1 is held" in capsys.readouterr().out


def test_a_faulty_lock_ends_with_2_and_every_fault(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty = SOUND.with_name("five-faults.toml").read_text(encoding="utf-8")
    (project / "pins.toml").write_text(faulty, encoding="utf-8")
    assert main(["lock", "--check"]) == 2
    told = capsys.readouterr().err
    assert "5 faults" in told
    assert "packages[1].wheels[0].size: missing" in told


def test_a_line_without_a_lock_ends_with_2(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lock", "--check", "--line", "other"]) == 2
    assert "pins.other.toml: no such file" in capsys.readouterr().err


def test_remote_alone_is_a_usage_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "--remote"]) == 2
    assert "--remote goes with --check" in capsys.readouterr().err


def test_remote_prints_what_is_known_before_it_complains(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = verb.Finding("artifact-gone", "error", "x", "x is gone")
    trouble = verb.OutsideTrouble("apt could not read Debian")
    monkeypatch.setattr(verb, "ask", lambda *_, **__: ([finding], [trouble]))
    assert main(["lock", "--check", "--remote"]) == 3
    told = capsys.readouterr()
    assert "artifact-gone: x is gone" in told.out
    assert "apt could not read Debian" in told.err


def test_remote_findings_decide_the_status(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = verb.Finding("artifact-gone", "error", "x", "x is gone")
    yanked = verb.Finding("artifact-yanked", "warning", "x", "x was withdrawn")
    for finding, status in ((gone, 1), (yanked, 0)):
        monkeypatch.setattr(verb, "ask", lambda *_, found=finding, **__: ([found], []))
        assert main(["lock", "--check", "--remote"]) == status


def test_lock_that_changes_nothing_does_not_touch_the_file(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = project / "pins.toml"
    before = path.stat()
    monkeypatch.setattr(verb, "update", lambda path, *_, **__: path.read_text(encoding="utf-8"))
    assert main(["lock"]) == 0
    assert path.stat() == before
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "pins.toml: unchanged\n")


def test_lock_asks_with_the_groups_of_the_stages_and_writes_the_answer(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {}

    def update(path: Path, paths: object, **options: object) -> str:
        asked.update(options, paths=sorted(set(paths)))  # type: ignore[call-overload]
        return path.read_text(encoding="utf-8").replace("epoch = 1767225600", "epoch = 1")

    monkeypatch.setattr(verb, "update", update)
    assert main(["lock", "--upgrade", "server", "debs"]) == 0
    assert asked["paths"] == [(), ("v3",), ("v3", "v4")]
    assert (asked["upgrade"], asked["moment"]) == (["server", "debs"], "2026-11-29T12:00:00Z")
    assert "epoch = 1\n" in (project / "pins.toml").read_text(encoding="utf-8")
    assert "wheels v4: 3 distributions" in capsys.readouterr().out
    assert [path.name for path in project.iterdir() if "pins" in path.name] == ["pins.toml"]


def test_explain(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lock", "--explain", "comms"]) == 0
    assert "  why: 1.0 hangs\n" in capsys.readouterr().out
    assert main(["lock", "--explain", "nope"]) == 2


def test_export_writes_a_lock_and_says_what_is_missing(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lock", "--export", "v4"]) == 0
    told = capsys.readouterr()
    assert told.out == "pylock.v4.toml\n"
    assert told.err == "3 of 3 wheels are not here yet: run fetch, then this again\n"
    golden = ROOT / "tests" / "fixtures" / "exports" / "pylock.v4.toml"
    assert (project / "pylock.v4.toml").read_bytes() == golden.read_bytes()
    assert main(["lock", "--export", "v7"]) == 2


def locked_wheel(project: Path, filename: str) -> None:
    """Put a real wheel of this name into the cache, and lock it as it is."""
    name, version = filename.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n")
        archive.writestr(f"{info}/RECORD", "")
    data = buffer.getvalue()
    sha256 = hashlib.sha256(data).hexdigest()
    place = Wheelhouse(default_cache()).path(sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    pattern = rf'({re.escape(filename)}", )size = \d+, hashes = {{ sha256 = "[0-9a-f]+"'
    size = rf'\g<1>size = {len(data)}, hashes = {{ sha256 = "{sha256}"'
    path = project / "pins.toml"
    text = re.sub(pattern, size, path.read_text(encoding="utf-8"))
    path.write_text(text, encoding="utf-8", newline="\n")


def test_uv_installs_from_an_export(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for filename in (
        "comms-2.0-py3-none-manylinux_2_18_aarch64.whl",
        "nvidia_blas-13.0-cp311-cp311-manylinux2014_aarch64.whl",
        "server-1.0-cp38-abi3-manylinux_2_28_aarch64.whl",
    ):
        locked_wheel(project, filename)
    assert main(["lock", "--export", "v4"]) == 0
    assert capsys.readouterr().err == ""
    command = [find_uv(), "pip", "install", "--dry-run", "--offline", "--no-python-downloads"]
    command += ["--requirements", "pylock.v4.toml", "--target", "target"]
    command += ["--python-version", "3.11", "--python-platform", "aarch64-manylinux_2_36"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    for pin in ("comms==2.0", "nvidia-blas==13.0", "server==1.0"):
        assert f" + {pin}" in done.stderr


@pytest.mark.skipif(
    not os.environ.get("SM121_CHAIN_NETWORK"),
    reason="asks package index and Debian archive: set SM121_CHAIN_NETWORK=1 to run it",
)
def test_this_projects_lock_is_what_resolving_gives_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "pins.toml").read_text(encoding="utf-8")
    head = tomlkit.parse(text)
    head.pop("packages")
    (tmp_path / "pins.toml").write_text(tomlkit.dumps(head), encoding="utf-8", newline="\n")
    (tmp_path / "stages").symlink_to(ROOT / "stages")
    monkeypatch.chdir(tmp_path)
    assert main(["lock", "--quiet", "--upgrade", "debs"]) == 0
    assert (tmp_path / "pins.toml").read_text(encoding="utf-8") == text

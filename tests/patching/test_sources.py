"""Where files to patch come from: an unpacked tree, or a wheel as it is."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from pipeline.errors import OutsideTrouble, Refusal, UsageError
from pipeline.patching.sources import open_tree, open_wheel

WHEEL = "demo_pkg-1.0-py3-none-any.whl"


def install(site: Path, name: str, version: str, record: str | None = None) -> Path:
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n", encoding="utf-8")
    if record is not None:
        (info / "RECORD").write_text(record, encoding="utf-8")
    return info


def test_a_tree_tells_its_files_and_versions(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.12/site-packages"
    record = "demo/a.py,,\n../../../bin/demo,,\ndemo_pkg-1.0.dist-info/RECORD,,\n"
    install(site, "demo_pkg", "1.0", record)
    install(site, "bare", "2.0")
    (site / "broken-1.0.dist-info").mkdir()  # without METADATA, and before others by its name
    install(site, "odd-name", "2004d")  # spelled as no installer does it now
    tree = open_tree(tmp_path, ["demo-pkg"])
    assert tree.versions == {"demo-pkg": Version("1.0"), "bare": Version("2.0")}
    assert sorted(tree.metadata) == ["bare", "demo-pkg", "odd-name"]
    assert tree.files_of("demo-pkg") == ["demo/a.py", "demo_pkg-1.0.dist-info/RECORD"]
    assert tree.files_of("bare") == tree.files_of("none") == []
    source = tree.source()
    assert list(source.candidates("demo-pkg")) == tree.files_of("demo-pkg")
    assert (source.python, source.name) == ("3.12", str(site))


def test_a_file_that_cannot_be_read_is_outside_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "demo", "1.0")
    (tmp_path / "a.py").write_bytes(b"a")
    tree = open_tree(tmp_path, ["demo"], "3.12")
    assert (tree.read("a.py"), tree.read("b.py"), tree.read("a.py/c")) == (b"a", None, None)

    def failing(self: Path) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", failing)
    with pytest.raises(OutsideTrouble, match=r"a\.py cannot be read: Input/output error"):
        tree.read("a.py")


def test_one_site_packages_is_meant(tmp_path: Path) -> None:
    for python in ("3.11", "3.12"):
        install(tmp_path / f"lib/python{python}/site-packages", "demo", "1.0")
    with pytest.raises(UsageError, match="several site-packages hold what is to be patched"):
        open_tree(tmp_path, ["demo"])
    assert open_tree(tmp_path / "lib/python3.11/site-packages", ["demo"]).python == "3.11"


@pytest.mark.parametrize(
    ("config", "python"),
    [("version = 3.11.4\n", "3.11"), ("home = /x\nversion_info = 3.13.0.final.0\n", "3.13")],
)
def test_an_environment_tells_its_python(tmp_path: Path, config: str, python: str) -> None:
    install(tmp_path, "demo", "1.0")
    with pytest.raises(UsageError, match="cannot tell for which Python it is"):
        open_tree(tmp_path, ["demo"])
    (tmp_path / "pyvenv.cfg").write_text("home = /x\n", encoding="utf-8")
    with pytest.raises(UsageError, match="cannot tell for which Python it is"):
        open_tree(tmp_path, ["demo"])
    (tmp_path / "pyvenv.cfg").write_text(config, encoding="utf-8")
    assert open_tree(tmp_path, ["demo"]).python == python
    assert open_tree(tmp_path, ["demo"], "3.12").python == "3.12"


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    return path


def test_a_wheel_is_read_as_it_would_be_installed(tmp_path: Path) -> None:
    files = {
        "demo/b.py": b"b",
        "demo_pkg-1.0.data/purelib/demo/a.py": b"a",
        "demo_pkg-1.0.data/platlib/x/y.data/purelib/z.py": b"z",
        "demo_pkg-1.0.data/scripts/run": b"s",
    }
    source, name = open_wheel(wheel(tmp_path / WHEEL, files), "3.12")
    assert (name, source.name, source.python) == ("demo-pkg", "demo-pkg 1.0", "3.12")
    assert source.versions == {"demo-pkg": Version("1.0")}
    assert list(source.candidates("demo-pkg")) == [
        "demo/a.py",
        "demo/b.py",
        "demo_pkg-1.0.data/scripts/run",
        "x/y.data/purelib/z.py",
    ]
    assert (source.read("demo/a.py"), source.read("demo/b.py")) == (b"a", b"b")
    assert source.read("none") is None


def test_a_wheel_under_another_name(tmp_path: Path) -> None:
    path = wheel(tmp_path / "0123", {"a.py": b"a"})
    assert open_wheel(path, "3.12", WHEEL)[1] == "demo-pkg"
    with pytest.raises(UsageError, match=r"^0123 is no wheel's file name"):
        open_wheel(path, "3.12")
    with pytest.raises(UsageError, match=r"^demo\.zip is no wheel's file name"):
        open_wheel(path, "3.12", "demo.zip")


def test_a_wheel_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    path = tmp_path / WHEEL
    with pytest.raises(UsageError, match="no such file"):
        open_wheel(path, "3.12")
    path.mkdir()
    with pytest.raises(OutsideTrouble, match="cannot be read: Is a directory"):
        open_wheel(path, "3.12")
    path.rmdir()
    path.write_bytes(b"no zip")
    with pytest.raises(Refusal, match=f"{WHEEL} is damaged: File is not a zip file"):
        open_wheel(path, "3.12")
    data = wheel(path, {"a.py": b"aaaa"}).read_bytes()
    path.write_bytes(data.replace(b"aaaa", b"abaa"))
    source, _ = open_wheel(path, "3.12")
    with pytest.raises(Refusal, match=rf"{WHEEL} is damaged: a\.py: Bad CRC-32"):
        source.read("a.py")

"""Unpacking for `import_check`, and what it and `compile_check` say no to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zstandard

from checks import compiling, imports
from pipeline.errors import OutsideTrouble
from tests.oci.makelayer import Item, file, folder, hardlink, opaque, symlink, tar, whiteout


def unpacked(directory: Path, *layers: list[Item]) -> dict[str, str]:
    root = directory / "root"
    root.mkdir()
    for number, items in enumerate(layers):
        blob = directory / str(number)
        blob.write_bytes(zstandard.ZstdCompressor().compress(tar(items)))
        imports.unpack(blob, root)
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_whiteouts_hide_what_lies_below(tmp_path: Path) -> None:
    lower = [folder("d"), file("d/a", "a"), file("d/b", "b"), folder("e"), file("e/x", "x")]
    upper = [file("e/new", "n"), opaque("e"), whiteout("d/a"), file("d/c", "c")]
    assert unpacked(tmp_path, lower, upper) == {"d/b": "b", "d/c": "c", "e/new": "n"}


def test_what_replaces_something_of_another_kind(tmp_path: Path) -> None:
    lower = [file("f", "old"), symlink("l", "f"), folder("d"), file("d/x", "x")]
    upper = [symlink("f", "l2"), file("l", "new"), file("d", "flat"), hardlink("h", "l")]
    found = unpacked(tmp_path, lower, upper)
    assert found == {"f": "l2", "l": "new", "d": "flat", "h": "new"}


def test_modules_that_an_image_says_are_patched(tmp_path: Path) -> None:
    stages = tmp_path / "usr/share/sm121-chain/stages"
    stages.mkdir(parents=True)
    for name, files in (("v1", ["a/b.py", "a/__init__.py"]), ("v2", ["a/b.py", "x.cuh"])):
        edits = [{"file": one} for one in files]
        document = json.dumps({"patches": [{"edits": edits}]})
        (stages / f"{name}.json").write_text(document, encoding="utf-8")
    assert imports.patched_modules(tmp_path) == ["a", "a.b"]


@pytest.mark.parametrize(
    ("uid", "machine", "handler", "free", "said"),
    [
        (1, "aarch64", "", 10**12, "needs root"),
        (0, "x86_64", "", 10**12, "does not run arm64 programs"),
        (0, "x86_64", "disabled", 10**12, "does not run arm64 programs"),
        (0, "x86_64", "enabled", 10**9, "1.0 GB are free, 13 GB are needed"),
        (0, "x86_64", "enabled", 10**12, ""),
        (0, "aarch64", "", 10**12, ""),
    ],
)
def test_what_a_machine_must_have(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    machine: str,
    handler: str,
    free: int,
    said: str,
) -> None:
    place = tmp_path / "qemu-aarch64"
    if handler:
        place.write_text(f"{handler}\ninterpreter /usr/bin/qemu\n", encoding="utf-8")
    monkeypatch.setattr(imports, "_HANDLER", place)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(imports.platform, "machine", lambda: machine)
    usage = imports.shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(imports.shutil, "disk_usage", lambda path: usage)
    if said:
        with pytest.raises(OutsideTrouble, match=said):
            imports.check_machine(tmp_path)
    else:
        imports.check_machine(tmp_path)


@pytest.mark.parametrize(
    ("status", "said", "says", "good"),
    [
        (0, "", "", True),
        (1, "no such header", "", False),
        (1, "failed to add `cute-to-nvvm`", "cute-to-nvvm", True),
        (1, "another error", "cute-to-nvvm", False),  # failed, and not for the reason meant
        (0, "cute-to-nvvm", "cute-to-nvvm", False),  # a mix that compiles is no control
    ],
)
def test_a_compilation_that_is_not_as_said(
    capsys: pytest.CaptureFixture[str], status: int, said: str, says: str, good: bool
) -> None:
    failed = compiling._tell("x", {"status": status, "said": said}, says=says)
    assert failed is not good
    assert json.loads(capsys.readouterr().out)["good"] is good

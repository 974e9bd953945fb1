"""Writing into a tree: all or nothing, with RECORD and byte code in step."""

from __future__ import annotations

import argparse
import base64
import dataclasses
import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.cli import patches as verb
from pipeline.errors import OutsideTrouble, Refusal, UsageError
from pipeline.patching import apply as module
from pipeline.patching.apply import apply_patches
from pipeline.patching.loading import load_patches
from pipeline.patching.model import Patch
from pipeline.patching.outcomes import Outcome
from pipeline.patching.sources import Tree, open_tree

TOML = """
name = "first"
title = "t"
why = "w"
upstream = ""
distribution = "my.pkg"
[[variants]]
for = "my-pkg==1.*"
[[variants.edits]]
id = "one"
file = "pkg/a.py"
within = "f"
find = "return 1"
replace = "return [2]"
[[variants.edits]]
id = "two"
file = "pkg/b.py"
find = "b = 1"
replace = "b = 2"
"""


def row(path: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"{path},sha256={digest},{len(data)}\n"


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """A virtual environment with one distribution, and a directory of patches beside it."""
    site = tmp_path / "env/lib/python3.12/site-packages"
    info = site / "my_pkg-1.0.dist-info"
    cache = site / "pkg/__pycache__"
    for directory in (info, cache, tmp_path / "patches"):
        directory.mkdir(parents=True)
    files = {"pkg/a.py": b"def f():\n    return 1\n", "pkg/b.py": b"b = 1\n"}
    for path, data in files.items():
        (site / path).write_bytes(data)
    (site / "pkg/a.py").chmod(0o755)
    for name in ("a.cpython-312.pyc", "a.cpython-312.opt-1.pyc", "ab.cpython-312.pyc"):
        (cache / name).write_bytes(b"stale")
    (info / "METADATA").write_text("Name: My.Pkg\nVersion: 1.0\n", encoding="utf-8")
    record = "".join(row(path, data) for path, data in files.items())
    record += "pkg/__pycache__/a.cpython-312.pyc,,\nother.txt,,\n"
    (info / "RECORD").write_text(record, encoding="utf-8")
    (tmp_path / "patches/first.toml").write_text(TOML, encoding="utf-8")
    return tmp_path / "env"


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(root)): (path.stat().st_mode, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def site_of(env: Path) -> Path:
    return env / "lib/python3.12/site-packages"


def tree_of(env: Path) -> Tree:
    return open_tree(env, ["my-pkg"])


def patches_of(env: Path) -> list[Patch]:
    return list(load_patches(env.parent / "patches").values())


def test_everything_follows_the_edit(env: Path) -> None:
    done = apply_patches(patches_of(env), tree_of(env))
    site = site_of(env)
    after = snapshot(site)
    assert done.removed == (
        "pkg/__pycache__/a.cpython-312.opt-1.pyc",
        "pkg/__pycache__/a.cpython-312.pyc",
    )
    assert done.unowned == ()
    assert sorted(after) == [
        "my_pkg-1.0.dist-info/METADATA",
        "my_pkg-1.0.dist-info/RECORD",
        "pkg/__pycache__/ab.cpython-312.pyc",
        "pkg/a.py",
        "pkg/b.py",
    ]
    mode, data = after["pkg/a.py"]
    assert (mode & 0o777, data) == (0o755, b"def f():\n    return [2]\n")
    wanted = row("pkg/a.py", data) + row("pkg/b.py", b"b = 2\n") + "other.txt,,\n"
    assert after["my_pkg-1.0.dist-info/RECORD"][1].decode() == wanted
    again = apply_patches(patches_of(env), tree_of(env))
    assert again.evaluation.patches[0].outcome is Outcome.ALREADY_APPLIED
    assert snapshot(site) == after


def test_a_failure_leaves_everything(env: Path) -> None:
    (site_of(env) / "pkg/b.py").write_bytes(b"b = 3\n")
    before = snapshot(env)
    assert not apply_patches(patches_of(env), tree_of(env)).evaluation.fits
    assert snapshot(env) == before


@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failing_disk_leaves_everything(
    env: Path, monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException
) -> None:
    before = snapshot(env)
    keep: Callable[[Path, Path], None] = module._keep
    calls = []

    def failing(path: Path, old: Path) -> None:
        calls.append(path)
        if len(calls) > at:
            raise error
        keep(path, old)

    monkeypatch.setattr(module, "_keep", failing)
    with pytest.raises(OutsideTrouble if isinstance(error, OSError) else KeyboardInterrupt):
        apply_patches(patches_of(env), tree_of(env))
    assert snapshot(env) == before


@pytest.mark.parametrize("links", [True, False])
def test_what_was_replaced_already_comes_back(
    env: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    """Also where the file system knows no hard links, and the old file is kept as a copy."""
    before = snapshot(env)
    replace, failed = Path.replace, []

    def failing(self: Path, target: Path) -> Path:
        if target.name == "RECORD" and not failed:
            failed.append(self)
            raise OSError(5, "Input/output error")
        return replace(self, target)

    def refusing(self: Path, target: Path) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "replace", failing)
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", refusing)
    with pytest.raises(OutsideTrouble, match="the tree cannot be written: Input/output error"):
        apply_patches(patches_of(env), tree_of(env))
    assert snapshot(env) == before


def test_what_comes_back_is_the_file_itself(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds it open, or has it under another name, has it still."""
    path = site_of(env) / "pkg/a.py"
    inode = path.stat().st_ino
    unlink, calls = Path.unlink, []

    def failing(self: Path, missing_ok: bool = False) -> None:
        if self.suffix == ".pyc":
            calls.append(self)
            raise OSError(5, "Input/output error")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", failing)
    with pytest.raises(OutsideTrouble):
        apply_patches(patches_of(env), tree_of(env))
    assert calls and path.stat().st_ino == inode


def test_no_file_stays_open(env: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    apply_patches(patches_of(env), tree_of(env))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_somebody_changes_meanwhile_is_left_alone(
    env: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of(env)
    changed = site_of(env) / "pkg/b.py"
    records = module._records

    def late(*args: object) -> object:
        changed.write_bytes(b"b = 1  # mine\n")
        return records(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_records", late)
    with pytest.raises(Refusal, match=r"pkg/b\.py was changed by somebody else meanwhile"):
        apply_patches(patches_of(env), tree)
    assert changed.read_bytes() == b"b = 1  # mine\n"
    assert b"return 1" in (site_of(env) / "pkg/a.py").read_bytes()

    def gone(*args: object) -> object:
        changed.unlink()
        return records(*args)  # type: ignore[arg-type]

    changed.write_bytes(b"b = 1\n")
    monkeypatch.setattr(module, "_records", gone)
    with pytest.raises(Refusal, match=r"pkg/b\.py is gone"):
        apply_patches(patches_of(env), tree)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(env: Path) -> None:
    os.chown(site_of(env) / "pkg/a.py", 1234, 2345)
    apply_patches(patches_of(env), tree_of(env))
    status = (site_of(env) / "pkg/a.py").stat()
    assert (status.st_uid, status.st_gid) == (1234, 2345)


def test_every_record_that_lists_a_file_follows(env: Path) -> None:
    """Of three distributions the first has no RECORD, the second lists nothing that changes."""
    site = site_of(env)
    b = row("pkg/b.py", b"b = 1\n")
    (site / "my_pkg-1.0.dist-info/RECORD").write_text(row("pkg/a.py", b""), encoding="utf-8")
    for name, record in (("aaa", None), ("bbb", "bbb.py,,\n"), ("zzz", b)):
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n", encoding="utf-8")
        if record:
            (info / "RECORD").write_text(record, encoding="utf-8")
    tree = open_tree(env, {"my-pkg", "aaa", "bbb", "zzz"})
    for order in (1, -1):
        tree = dataclasses.replace(tree, metadata=dict(list(tree.metadata.items())[::order]))
        _, unowned = module._records(tree, {"pkg/a.py": b"a", "pkg/b.py": b"b"}, ())
        assert unowned == ()
    assert apply_patches(patches_of(env), tree).unowned == ()
    assert (site / "zzz-1.0.dist-info/RECORD").read_text() == row("pkg/b.py", b"b = 2\n")
    assert (site / "bbb-1.0.dist-info/RECORD").read_text() == "bbb.py,,\n"


@pytest.mark.parametrize("path", ["top.py", "one/mod.py", "one/two/mod.py"])
def test_byte_code_of_a_module_at_any_depth(env: Path, path: str) -> None:
    place = site_of(env) / path
    cache = place.parent / "__pycache__"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"{place.stem}.cpython-312.pyc").write_bytes(b"")
    folder = f"{path.rpartition('/')[0]}/".lstrip("/")
    wanted = [f"{folder}__pycache__/{place.stem}.cpython-312.pyc"]
    assert module._stale(tree_of(env), path) == wanted


def test_file_that_shares_an_inode_is_not_written_into(env: Path) -> None:
    shared = env.parent / "cache.py"
    shared.hardlink_to(site_of(env) / "pkg/b.py")
    apply_patches(patches_of(env), tree_of(env))
    assert shared.read_bytes() == b"b = 1\n"


def test_link_inside_the_root_is_followed(env: Path) -> None:
    site = site_of(env)
    (site / "pkg/b.py").rename(site / "real.py")
    (site / "pkg/b.py").symlink_to("../real.py")
    assert apply_patches(patches_of(env), tree_of(env)).evaluation.fits
    assert (site / "pkg/b.py").is_symlink()
    assert (site / "real.py").read_bytes() == b"b = 2\n"


@pytest.mark.parametrize("name", ["pkg/b.py", "pkg"])
def test_link_out_of_the_root_is_refused(env: Path, name: str) -> None:
    inside = site_of(env) / name
    outside = env.parent / "outside"
    inside.rename(outside)
    inside.symlink_to(outside)
    before = snapshot(env.parent)
    with pytest.raises(Refusal, match="leaves"):
        apply_patches(patches_of(env), tree_of(env))
    assert snapshot(env.parent) == before


def test_directory_in_place_of_the_file(env: Path) -> None:
    (site_of(env) / "pkg/b.py").unlink()
    (site_of(env) / "pkg/b.py").mkdir()
    failures = apply_patches(patches_of(env), tree_of(env)).evaluation.failures
    assert [edit.outcome for edit in failures] == [Outcome.TARGET_MISSING]


def test_roots(env: Path, tmp_path: Path) -> None:
    assert open_tree(site_of(env), ["my-pkg"]).python == "3.12"
    image = tmp_path / "image/usr/local/lib/python3.11"
    image.mkdir(parents=True)
    site_of(env).rename(image / "dist-packages")
    tree = open_tree(tmp_path / "image", ["my-pkg"])
    assert (tree.python, str(tree.versions["my-pkg"])) == ("3.11", "1.0")
    with pytest.raises(UsageError, match="holds other"):
        open_tree(tmp_path / "image", ["other"])
    with pytest.raises(UsageError, match="no such"):
        open_tree(tmp_path / "nothing", ["my-pkg"])


def test_distribution_installed_twice_is_refused(env: Path) -> None:
    second = site_of(env) / "my.pkg-2.0.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Name: my.pkg\nVersion: 2.0\n", encoding="utf-8")
    with pytest.raises(Refusal, match="twice"):
        tree_of(env)


def cli(env: Path, *words: str) -> int:
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args([*words, "--patches", str(env.parent / "patches")]))


def test_cli_check_and_apply(env: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(env)
    assert cli(env, "check", "--root", str(env)) == 0
    out = capsys.readouterr().out
    assert "applies" in out and "applied" not in out and "\x1b" not in out
    assert snapshot(env) == before
    assert cli(env, "apply", "--root", str(env)) == 0
    assert "applied" in capsys.readouterr().out
    assert cli(env, "apply", "--root", str(env), "--format", "json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [e["outcome"] for e in data["patches"][0]["edits"]] == ["already-applied"] * 2
    assert data["files"] == []


def test_cli_failure_claims_nothing(env: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site_of(env) / "pkg/b.py").write_bytes(b"b = [3]\n")
    for form in ("text", "json"):
        assert cli(env, "apply", "--root", str(env), "--format", form) == 1
        captured = capsys.readouterr()
        assert "anchor-missing" in captured.out
        assert "applied" not in captured.out
        assert "nothing was written" in captured.err


def test_cli_check_against_a_wheel(env: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheel = env.parent / "my_pkg-1.5-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pkg/a.py", "def f():\n    return 1\n")
        archive.writestr("my_pkg-1.5.data/purelib/pkg/b.py", "b = 1\n")
    assert cli(env, "check", "--against", str(wheel)) == 0
    wheel.write_bytes(b"no zip")
    with pytest.raises(Refusal):
        cli(env, "check", "--against", str(wheel))
    for wrong in ("my-pkg", "my-pkg==", "==1", "my pkg==1"):
        with pytest.raises(UsageError):
            cli(env, "check", "--against", wrong)
    with pytest.raises(UsageError, match="nothing to check"):
        cli(env, "check")
    with pytest.raises(UsageError, match="no patch is called"):
        cli(env, "check", "--root", str(env), "other")


def test_cli_list(env: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(env, "list") == 0
    assert "pkg/a.py" in capsys.readouterr().out
    assert cli(env, "list", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["variants"][0]["for"] == "my-pkg==1.*"

"""The NCCL probe against small libraries that say a version of their own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.conftest import SMOKE, Ended, start

SOURCE = "int ncclGetVersion(int *v) { *v = VERSION; return STATUS; }\n"


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        pytest.skip("no C compiler here to make a library that says a version")
    return found


class Site:
    """A site-packages with a torch that maps the libraries that lie there."""

    def __init__(self, path: Path, compiler: str):
        self.path, self.compiler = path / "site-packages", compiler
        (self.path / "torch").mkdir(parents=True)
        self.loads: list[Path] = []

    def library(
        self, folder: str, version: int = 23007, *, load: bool = True, status: int = 0
    ) -> Path:
        """Put a libnccl.so.2 into a folder of the site-packages, or anywhere."""
        path = self.path / folder / "libnccl.so.2"
        path.parent.mkdir(parents=True)
        source = path.with_name("nccl.c")
        source.write_text(SOURCE, encoding="utf-8")
        subprocess.run(
            [
                *(self.compiler, "-shared", "-fPIC", f"-DVERSION={version}", f"-DSTATUS={status}"),
                *("-Wl,-soname,libnccl.so.2", "-o", str(path), str(source)),
            ],
            check=True,
        )
        if load:
            self.loads.append(path)
        return path

    def run(self, *arguments: str, **environment: str) -> Ended:
        lines = ["import ctypes", "__version__ = '0'"]
        lines += [f"ctypes.CDLL({str(path)!r})" for path in self.loads]
        (self.path / "torch" / "__init__.py").write_text("\n".join(lines), encoding="utf-8")
        given = {"PYTHONPATH": str(self.path), **environment}
        return start(SMOKE / "nccl_library.py", arguments, given)


@pytest.fixture
def site(tmp_path: Path, compiler: str) -> Site:
    return Site(tmp_path, compiler)


def reason(ended: Ended) -> str:
    assert ended.status == 1
    assert ended.told["status"] == "failed"
    return str(ended.told["reason"])


def test_passed(site: Site) -> None:
    path = site.library("nvidia/nccl/lib")
    # What the environment says means nothing.
    ended = site.run(NCCL_VERSION="2.29.7")
    assert ended.status == 0
    assert ended.told["numbers"] == {"version": 23007, "copies_mapped": 1, "copies_installed": 1}
    assert ended.told["facts"]["path"] == str(path)


def test_another_version(site: Site) -> None:
    site.library("nvidia/nccl/lib", 22907)
    assert reason(site.run(NCCL_VERSION="2.30.7")) == "version is 22907, 23007 is wanted"


def test_second_copy_mapped(site: Site) -> None:
    site.library("nvidia/nccl/lib")
    site.library("../opt")
    assert reason(site.run()) == "copies_mapped is 2, 1 is wanted"


def test_planted_second_copy(site: Site) -> None:
    site.library("nvidia/nccl/lib")
    assert reason(site.run("--plant", "second-copy")) == "copies_mapped is 2, 1 is wanted"


def test_second_copy_that_only_lies_there(site: Site) -> None:
    site.library("nvidia/nccl/lib")
    site.library("other/lib", load=False)
    assert reason(site.run()) == "copies_installed is 2, at most 1 is allowed"


def test_vllm_would_open_another(site: Site) -> None:
    site.library("nvidia/nccl/lib")
    other = site.library("../system", 22907, load=False)
    assert "copies_mapped is 2" in reason(site.run(VLLM_NCCL_SO_PATH=str(other)))
    assert "cannot be opened" in reason(site.run(VLLM_NCCL_SO_PATH="/no/such/libnccl.so.2"))


def test_none_mapped(site: Site) -> None:
    assert reason(site.run()) == "torch has mapped no NCCL"


def test_the_library_refuses(site: Site) -> None:
    site.library("nvidia/nccl/lib", status=3)
    assert reason(site.run()).endswith("libnccl.so.2 returns 3")


def test_maps(smoke: Any) -> None:
    text = (
        "7f00-7f01 r-xp 00000000 fe:00 11 /a/libnccl.so.2\n"
        "7f01-7f02 rw-p 00001000 fe:00 11 /a/libnccl.so.2\n"
        "7f02-7f03 r-xp 00000000 fe:00 12 /b c/libnccl.so.2.30.7 (deleted)\n"
        "7f03-7f04 r-xp 00000000 fe:00 13 /a/libnccl-net.so\n"
        "7f04-7f05 rw-p 00000000 00:00 0 \n"
        "7ffc-7ffd rw-p 00000000 00:00 0 [stack]\n"
    )
    assert smoke.nccl_library.mapped(text) == ["/a/libnccl.so.2", "/b c/libnccl.so.2.30.7"]

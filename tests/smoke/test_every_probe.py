"""What holds for every probe of the folder, and for what README.md says of them."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.conftest import MODULES, SMOKE, start

PROBES = (
    "nope_mla", "fa2_rows", "fa2_fp8_kv", "nccl_library", "cute_dsl", "pdl_gate", "indexer_fill",
    "topk_route", "server",
)  # fmt: skip
README = (SMOKE / "README.md").read_text(encoding="utf-8")


def test_the_driver_knows_them_all(smoke: Any) -> None:
    assert tuple(smoke.run.PROBES) == PROBES
    assert set(MODULES) - set(PROBES) == {
        "build_jit", "environment", "mla", "probe", "result", "run", "vllm_module",
    }  # fmt: skip


def test_the_readme_knows_them_all() -> None:
    assert re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", README, re.M)[: len(PROBES)] == list(
        PROBES
    )
    for name in PROBES[:-1]:
        assert re.search(rf"^\| v\d.*`{name}`", README, re.M), f"no stage asks for {name}"


@pytest.mark.parametrize("name", PROBES)
def test_help(name: str) -> None:
    ended = start(SMOKE / f"{name}.py", ["--help"])
    assert ended.status == 0


@pytest.mark.parametrize("name", PROBES[:-1])
def test_planted_faults_are_offered(name: str) -> None:
    ended = start(SMOKE / f"{name}.py", ["--plant", "no-such-fault"])
    assert ended.status == 2
    assert "invalid choice: 'no-such-fault'" in ended.err


@pytest.mark.parametrize("name", PROBES[:-1])
def test_without_torch(name: str, tmp_path: Path) -> None:
    """Cannot run is neither passed nor failed."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('no torch')\n", encoding="utf-8")
    ended = start(SMOKE / f"{name}.py", [], {"PYTHONPATH": str(tmp_path)})
    assert (ended.status, ended.told["status"]) == (2, "error")
    assert re.search("no torch|nvidia-cutlass-dsl is not installed", ended.told["reason"])


@pytest.mark.parametrize(
    "name", ["nope_mla", "fa2_rows", "fa2_fp8_kv", "indexer_fill", "topk_route"]
)
def test_without_a_gpu(name: str, torch_stand_in: dict[str, str]) -> None:
    ended = start(SMOKE / f"{name}.py", [], torch_stand_in | {"TRITON_INTERPRET": ""})
    assert (ended.status, ended.told["status"]) == (2, "error")
    assert ended.told["reason"] == "torch sees no GPU"


@pytest.mark.parametrize("name", MODULES)
def test_they_import_nothing_of_ours(name: str) -> None:
    source = (SMOKE / f"{name}.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        assert not [n for n in names if n.split(".")[0] in ("pipeline", "tests", "bench")]


@pytest.mark.parametrize(
    ("versions", "packages", "different"),
    [
        ({}, 0, 0),
        (dict.fromkeys(range(5), "4.6.2"), 5, 1),
        ({0: "4.7.0", 1: "4.7.0", 2: "4.7.0", 3: "4.7.0", 4: "4.6.2"}, 5, 2),
        (dict.fromkeys(range(4), "4.6.2"), 4, 1),
    ],
    ids=["none", "right", "mixed", "one is missing"],
)
def test_cute_dsl_family(
    tmp_path: Path,
    torch_stand_in: dict[str, str],
    smoke: Any,
    versions: dict[int, str],
    packages: int,
    different: int,
) -> None:
    if smoke.cute_dsl.versions():
        pytest.skip("nvidia-cutlass-dsl is installed here")
    for index, version in versions.items():
        name = smoke.cute_dsl.PACKAGES[index]
        folder = tmp_path / "stand-in" / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (folder / "METADATA").write_text(text, encoding="utf-8")
    ended = start(SMOKE / "cute_dsl.py", [], torch_stand_in)
    assert ended.status == 2  # there is no GPU; what was read before that is told
    if not versions:
        assert ended.told["reason"] == "nvidia-cutlass-dsl is not installed"
    else:
        found = ended.told["numbers"]
        assert (found["packages"], found["versions"]) == (packages, different)


PROGRAM = """
#include <stdio.h>
int cudaDeviceGetAttribute(int *value, int attribute, int device);
int cudaFuncSetAttribute(const void *function, int attribute, int value);
int main(void) {
  int sm, block, other;
  cudaDeviceGetAttribute(&sm, 81, 0);
  cudaDeviceGetAttribute(&block, 97, 0);
  cudaDeviceGetAttribute(&other, 16, 0);
  printf("%d %d %d", sm, block, other);
  printf(" %d %d %d\\n", cudaFuncSetAttribute(0, 8, 91680), cudaFuncSetAttribute(0, 8, 117312),
         cudaFuncSetAttribute(0, 9, 117312));
}
"""
RUNTIME = """
int cudaDeviceGetAttribute(int *v, int a, int d) { *v = 233472 + a; return 0; }
int cudaFuncSetAttribute(const void *f, int a, int v) { return 0; }
"""


def test_reported_shared_memory(tmp_path: Path) -> None:
    """The shim in front of a runtime of the test's own: a larger GPU, then SM121."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here to make the shim")

    def make(name: str, *arguments: str) -> Path:
        target = tmp_path / name
        subprocess.run([compiler, "-Werror", "-Wall", "-o", target, *arguments], check=True)
        return target

    for name, text in (("runtime.c", RUNTIME), ("program.c", PROGRAM)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    make("libcudart.so.13", "-shared", "-fPIC", str(tmp_path / "runtime.c"))
    program = make("program", str(tmp_path / "program.c"), str(tmp_path / "libcudart.so.13"))
    shim = make("shim.so", "-shared", "-fPIC", str(SMOKE / "sm121_shared_memory.c"), "-ldl")
    asked = tmp_path / "asked"

    def run(**environment: str) -> str:
        given = {"LD_LIBRARY_PATH": str(tmp_path), **environment}
        done = subprocess.run([program], env=given, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert run() == "233553 233569 233488 0 0 0"
    shimmed = run(LD_PRELOAD=str(shim), SM121_SHARED_MEMORY_ASKED=str(asked))
    assert shimmed == "102400 101376 233488 0 1 0"
    assert sorted(asked.read_text().split()) == ["117312", "91680"]

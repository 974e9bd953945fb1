"""The probes of vLLM's modules on the locked wheel's source, before and after the edits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.proofs import conftest as proofs
from tests.smoke.conftest import SMOKE, Ended, start

FILES = (
    "vllm/platforms/cuda.py",
    "vllm/model_executor/layers/sparse_attn_indexer_kpool.py",
    "vllm/models/glm5next/nvidia/ops/kpool_compress.py",
)
V7 = ("v7.a", "v7.b", "v7.c")


class Trees:
    """Unpacked vLLMs that hold the three files, with some of the chain's edits."""

    def __init__(self, path: Path):
        self.path = path
        self.sources = proofs.Sources(proofs._wheel("vllm", "0.30.0"), "vllm")

    def tree(self, *edits: str) -> str:
        """With these edits alone."""
        return self._write(",".join(edits) or "upstream", dict.fromkeys(FILES, edits))

    def patched(self) -> str:
        """As v11 has them."""
        every = {f: tuple(e.id for e in self.sources.edits(f)) for f in FILES}
        return self._write("patched", every)

    def _write(self, name: str, edits: dict[str, tuple[str, ...]]) -> str:
        for file, ids in edits.items():
            target = self.path / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self.sources.text(file, ids), encoding="utf-8")
        return str(self.path / name)


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    return Trees(tmp_path)


def numbers(ended: Ended) -> dict[str, float]:
    assert ended.told is not None, ended.err
    assert ended.told["stand_ins"]  # so that no driver takes it for a pass
    return dict(ended.told["numbers"])


class TestPdlGate:
    def run(self, root: str, environment: dict[str, str], *arguments: str) -> Ended:
        return start(SMOKE / "pdl_gate.py", ["--root", root, *arguments], environment)

    def test_patched(self, trees: Trees, torch_stand_in: dict[str, str]) -> None:
        ended = self.run(trees.patched(), torch_stand_in)
        assert (ended.status, ended.told["status"]) == (0, "passed")
        assert numbers(ended) == {
            "pdl_89": 0, "pdl_90": 1, "pdl_100": 1, "pdl_110": 0, "pdl_120": 0, "pdl_121": 0,
        }  # fmt: skip

    def test_upstream(self, trees: Trees, torch_stand_in: dict[str, str]) -> None:
        ended = self.run(trees.tree(), torch_stand_in)
        assert ended.status == 1
        assert "pdl_121 is 1, 0 is wanted" in ended.told["reason"]

    def test_planted(self, trees: Trees, torch_stand_in: dict[str, str]) -> None:
        ended = self.run(trees.patched(), torch_stand_in, "--plant", "unpatched")
        assert ended.status == 1

    def test_nothing_there(self, tmp_path: Path, torch_stand_in: dict[str, str]) -> None:
        ended = self.run(str(tmp_path), torch_stand_in)
        assert (ended.status, ended.told["status"]) == (2, "error")
        assert "has no vllm.platforms.cuda" in ended.told["reason"]


@pytest.fixture
def stands(smoke: Any, torch_stand_in: dict[str, str]) -> Iterator[Any]:
    """The probes' modules in this process, over a torch that is a stand-in."""

    def foreign(name: str) -> bool:
        return name.split(".")[0] in ("torch", "vllm", "triton")

    before = {name: module for name, module in sys.modules.items() if foreign(name)}
    for name in before:
        del sys.modules[name]
    finders, path = list(sys.meta_path), list(sys.path)
    sys.path.insert(0, torch_stand_in["PYTHONPATH"])
    triton = type(sys)("triton")
    triton.jit = lambda function: function  # type: ignore[attr-defined]
    triton.language = type(sys)("triton.language")  # type: ignore[attr-defined]
    sys.modules |= {"triton": triton, "triton.language": triton.language}
    yield smoke
    sys.meta_path[:], sys.path[:] = finders, path
    for name in [name for name in sys.modules if foreign(name)]:
        del sys.modules[name]
    sys.modules.update(before)


def load(smoke: Any, name: str, root: str) -> Any:
    return smoke.vllm_module.load(smoke.probe.Probe("sample"), name, Path(root))


@pytest.mark.parametrize(
    ("patched", "on_48"), [(False, "persistent_topk"), (True, "top_k_per_row_decode")]
)
def test_topk_route(stands: Any, trees: Trees, patched: bool, on_48: str) -> None:
    root = trees.patched() if patched else trees.tree()
    module = load(stands, stands.vllm_module.INDEXER, root)
    route = stands.topk_route.decode_kernel
    assert (route(module, 48), route(module, 132)) == (on_48, "persistent_topk")
    assert hasattr(module, "_exact_topk") is patched


def test_topk_route_that_is_written_in_another_way(stands: Any, tmp_path: Path) -> None:
    file = tmp_path / FILES[1]
    file.parent.mkdir(parents=True)
    file.write_text("def sparse_attn_indexer_kpool():\n    pass\n", encoding="utf-8")
    module = load(stands, stands.vllm_module.INDEXER, str(tmp_path))
    with pytest.raises(stands.probe.Broken, match="chooses its kernel in another way"):
        stands.topk_route.decode_kernel(module, 48)
    with pytest.raises(stands.probe.Broken, match="has no function other"):
        stands.vllm_module.function(module, "other")


def test_the_indexer_is_entered_by_the_model(smoke: Any, tmp_path: Path) -> None:
    """Imported first, the indexer's module fails: it and the model import one another."""
    files = {
        "vllm/__init__.py": "",
        "vllm/model_executor/__init__.py": "",
        "vllm/model_executor/layers/__init__.py": "",
        FILES[1]: "import vllm.models.glm5next\nclass Indexer: pass\n",
        "vllm/models/__init__.py": "",
        "vllm/models/glm5next/__init__.py": f"from {smoke.vllm_module.INDEXER} import Indexer\n",
    }
    for name, text in files.items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    script = tmp_path / "try.py"
    for load, status in (
        ("import importlib; importlib.import_module(vllm_module.INDEXER)", 1),
        ("vllm_module.load(probe.Probe('sample'), vllm_module.INDEXER, None)", 0),
    ):
        script.write_text(f"import probe, vllm_module\n{load}\n", encoding="utf-8")
        environment = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{SMOKE}"}
        assert start(script, [], environment).status == status


class TestExactTopk:
    """The checker of the exact top-k, on real torch."""

    def test_wrong_rows(self, smoke: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        torch: Any = pytest.importorskip("torch", reason="torch is not installed here")
        route = smoke.topk_route
        monkeypatch.setattr(route, "ROWS", 3)
        monkeypatch.setattr(route, "SELECTED", 4)
        scores = torch.tensor([[3.0, 9, 1, 7, 5, 8]] * 3)
        starts, ends = torch.tensor([0, 2, 3]), torch.tensor([6, 5, 3])
        right = torch.tensor([[1, 5, 3, 4], [1, 2, 0, -1], [-1, -1, -1, -1]])

        def wrong(row: int, column: int, value: int) -> int:
            given = right.clone()
            given[row, column] = value
            return int(route.wrong_rows(torch, scores, starts, ends, given))

        assert route.wrong_rows(torch, scores, starts, ends, right) == 0
        assert wrong(0, 3, 0) == 1  # not among the best
        assert wrong(0, 1, 1) == 1  # twice
        assert wrong(0, 3, -1) == 1  # lost
        assert wrong(1, 3, 3) == 1  # beyond the row's end
        assert wrong(1, 0, 6) == 1  # beyond the row's columns
        assert wrong(2, 0, 0) == 1  # of an empty row


class TestIndexerFill:
    """With Triton's interpreter: the kernel's own code, on the CPU."""

    def run(self, root: str, *arguments: str) -> Ended:
        pytest.importorskip("torch", reason="torch is not installed here")
        pytest.importorskip("triton", reason="Triton is not installed here")
        environment = {"TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        return start(SMOKE / "indexer_fill.py", ["--root", root, *arguments], environment)

    def test_patched(self, trees: Trees) -> None:
        ended = self.run(trees.patched())
        assert (ended.status, ended.told["status"]) == (0, "passed")
        assert "Triton's interpreter, on the CPU" in ended.told["stand_ins"]

    @pytest.mark.parametrize(
        ("edits", "broken"),
        [
            ((), {"unwritten_prefill", "unwritten_decode", "ids_out_of_range", "wrong_ids"}),
            (("v7.a", "v7.b"), {"ids_out_of_range", "wrong_ids"}),
            (("v7.a", "v7.c"), {"unwritten_decode"}),
            (("v7.b", "v7.c"), {"unwritten_prefill"}),
            (V7, set()),
        ],
    )
    def test_each_edit_is_seen(
        self, trees: Trees, edits: tuple[str, ...], broken: set[str]
    ) -> None:
        ended = self.run(trees.tree(*edits))
        found = {n for n, value in numbers(ended).items() if n != "buffers" and value}
        assert found == broken
        assert ended.status == (1 if broken else 0)

    @pytest.mark.parametrize("plant", ["empty-buffer", "lost-id"])
    def test_planted(self, trees: Trees, plant: str) -> None:
        assert self.run(trees.patched(), "--plant", plant).status == 1


@pytest.mark.parametrize("edits", [(), V7])
def test_indexer_buffers(stands: Any, trees: Trees, edits: tuple[str, ...]) -> None:
    """The two statements, without torch: which value they fill with."""

    class Torch:
        @staticmethod
        def full(size: Any, value: int, **_: object) -> int:
            return value

        @staticmethod
        def zeros(*_: object, **__: object) -> Any:
            return stands.vllm_module.StandIn()

        int32 = None

    module = load(stands, stands.vllm_module.INDEXER, trees.tree(*edits))
    made = stands.indexer_fill.buffers(module, Torch, "cpu", "")
    assert made == ([-1, -1] if edits else [stands.indexer_fill.GARBAGE] * 2)

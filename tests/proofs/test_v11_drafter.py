"""v11.R: DFlash2 is in the release, and the two things that it lacks are added."""

from __future__ import annotations

import ast
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from pipeline.patching.evaluate import evaluate
from pipeline.patching.loading import load_patch
from pipeline.patching.outcomes import Evaluation, Outcome

if TYPE_CHECKING:
    from conftest import Sources

    Execute = Callable[[ast.Module, Mapping[str, Any]], dict[str, Any]]

PATCHES = Path(__file__).parents[2] / "patches"
CONFIG = "vllm/config/speculative.py"
DRAFTER = "vllm/model_executor/models/qwen3_dflash.py"
SPECULATORS = "vllm/v1/worker/gpu/spec_decode/__init__.py"
ALL = ("v11.R.s", "v11.R.c")


def asked(vllm: Sources, without: str = "") -> Evaluation:
    """What `patches check` says of v11.R; `without` is a file that the release is robbed of."""
    patch = load_patch(PATCHES / "dflash2-drafter.toml")
    with zipfile.ZipFile(vllm.wheel) as archive:
        names = set(archive.namelist()) - {without}

        def read(path: str) -> bytes | None:
            return archive.read(path) if path in names else None

        return evaluate([patch], read, {"vllm": Version(vllm.version)}, "3.11")


def test_the_release_has_it(vllm: Sources) -> None:
    (result,) = asked(vllm).patches
    assert result.outcome is Outcome.UPSTREAM


@pytest.mark.parametrize(
    "file", ["qwen3_dflash2.py", "registry.py", "qwen3_dflash.py"], ids=lambda name: name
)
def test_a_release_without_a_part_is_refused(vllm: Sources, file: str) -> None:
    evaluation = asked(vllm, f"vllm/model_executor/models/{file}")
    assert not evaluation.fits
    assert file in evaluation.patches[0].message


@pytest.mark.parametrize(
    ("architecture", "kind"),
    [("DFlash2DraftModel", "DFlash2Speculator"), ("DFlashDraftModel", "DFlashSpeculator")],
)
def test_the_speculator_follows_the_architecture(
    vllm: Sources, monkeypatch: pytest.MonkeyPatch, architecture: str, kind: str
) -> None:
    for name, value in (("dflash2", "DFlash2Speculator"), ("dflash", "DFlashSpeculator")):
        module: Any = ModuleType("stand-in")
        setattr(module, value, lambda config, device, value=value: value)
        package = f"vllm.v1.worker.gpu.spec_decode.{name}.speculator"
        parts = package.split(".")
        for end in range(1, len(parts)):
            monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType("stand-in"))
        monkeypatch.setitem(sys.modules, package, module)
    init = vllm.take(SPECULATORS, "init_speculator", (), {})
    draft = SimpleNamespace(architectures=[architecture])
    config = SimpleNamespace(method="dflash", draft_model_config=draft)
    assert init(SimpleNamespace(speculative_config=config), "cuda") == kind


def routed(
    vllm: Sources, execute: Execute, edits: Sequence[str], method: str, config: dict[str, Any]
) -> tuple[list[str], int]:
    """A drafter's architectures after the constructor's statements, and how often it was told."""
    constructor = vllm.node(CONFIG, "SpeculativeConfig.__post_init__", edits)
    bodies = [
        body
        for node in ast.walk(constructor)
        for body in (getattr(node, "body", []), getattr(node, "orelse", []))
        if isinstance(body, list)
        and any(ast.unparse(n).startswith("if self.method in ('dflash', 'dspark'):") for n in body)
    ]
    (body,) = bodies
    texts = [ast.unparse(statement) for statement in body]
    end = next(i for i, t in enumerate(texts) if "parallel_drafting = True" in t)
    start = end
    while "dspark" not in texts[start - 1] and "dflash_config" in "".join(texts[start - 2 : end]):
        start -= 1
    updates: list[None] = []
    hf = SimpleNamespace(**config)
    draft = SimpleNamespace(hf_config=hf)
    this = SimpleNamespace(
        method=method, draft_model_config=draft, update_arch_=lambda: updates.append(None)
    )
    execute(ast.Module(body[start : end + 1], []), {"self": this})
    return hf.architectures, len(updates)


SELECTOR = {"selector_rank": 256, "selector_top_k": 16}


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        ({"dflash_config": SELECTOR}, "DFlash2DraftModel"),
        ({"dflash_config": {"selector_rank": 0}}, "DFlashDraftModel"),
        ({"dflash_config": {}}, "DFlashDraftModel"),
        ({"dflash_config": None}, "DFlashDraftModel"),
        ({}, "DFlashDraftModel"),
    ],
)
def test_a_selector_makes_a_dflash2_drafter(
    vllm: Sources, execute: Execute, config: dict[str, Any], architecture: str
) -> None:
    def run(edits: Sequence[str], method: str = "dflash") -> tuple[list[str], int]:
        given = {"architectures": ["DFlashDraftModel"], **config}
        return routed(vllm, execute, edits, method, given)

    assert run(()) == (["DFlashDraftModel"], 0)  # upstream never looks
    assert run(ALL) == ([architecture], int(architecture == "DFlash2DraftModel"))
    assert run(ALL, "dspark") == (["DFlashDraftModel"], 0)


def test_other_drafters_keep_their_architecture(vllm: Sources, execute: Execute) -> None:
    given = {"architectures": ["DFlashLagunaForCausalLM"], "dflash_config": SELECTOR}
    assert routed(vllm, execute, ALL, "dflash", given)[0] == ["DFlashLagunaForCausalLM"]


@pytest.mark.parametrize(
    ("config", "before", "after"),
    [
        ({"dflash_config": {"is_causal": False}}, True, False),
        ({"dflash_config": {"is_causal": True}}, True, True),
        ({"dflash_config": {"causal": True, "is_causal": False}}, True, True),
        ({"is_causal": True, "dflash_config": {"is_causal": False}}, True, True),
        ({"dflash_config": {}}, True, True),
        ({}, True, True),
    ],
)
def test_causality(vllm: Sources, config: dict[str, Any], before: bool, after: bool) -> None:
    """Of a layer with a sliding window, which is causal when its config says nothing."""
    given = SimpleNamespace(layer_types=["sliding_attention"], **config)
    names = {"_SLIDING_ATTENTION": "sliding_attention"}
    for edits, causal in (((), before), (ALL, after)):
        assert vllm.take(DRAFTER, "_dflash_layer_causal", edits, names)(given, 0) is causal

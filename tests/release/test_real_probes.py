"""The real stages, the real probes and the gate's limits name the same things."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pipeline.project import Project
from pipeline.release.limits import LIMITS

ROOT = Path(__file__).parents[2]


def probes() -> set[str]:
    """The probes that the driver knows."""
    tree = ast.parse((ROOT / "smoke" / "run.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "PROBES":
            assert node.value is not None
            return set(ast.literal_eval(node.value))
    raise AssertionError("run.py has no PROBES")


def test_stages_require_probes_that_there_are() -> None:
    chain = Project(ROOT).chain
    assert all(set(stage.smoke) <= probes() for stage in chain)
    # Nothing can be released that need not prove anything.
    assert [stage.name for stage in chain if not stage.smoke] == []


def test_what_a_stage_must_pass_its_children_must_too() -> None:
    chain = Project(ROOT).chain
    for stage in chain:
        if stage.parent in chain.stages:
            assert set(chain.stages[stage.parent].smoke) <= set(stage.smoke)


def test_the_gate_has_limits_for_every_probe() -> None:
    assert set(LIMITS) == probes()


@pytest.mark.parametrize("base", ["wheels", "day0"])
def test_the_nccl_that_is_asked_for_is_the_locked_one(base: str) -> None:
    """23007 stands in the probe and in the gate: no stage that asks it may lock another one."""
    project = Project(ROOT)
    text = (ROOT / "smoke" / "nccl_library.py").read_text(encoding="utf-8")
    (said,) = LIMITS["nccl_library"].numbers["version"].values()
    assert f"\nVERSION = {said:g}\n" in text
    for stage in project.chain:
        if "nccl_library" in stage.smoke:
            groups = project.chain.groups(stage.name)
            (locked,) = {
                one.version
                for one in project.lock.select(base, groups)
                if one.name == "nvidia-nccl-cu13"
            }
            major, minor, patch = map(int, str(locked).split("."))
            # nccl.h, NCCL_VERSION: since 2.9 two digits each for minor and patch.
            assert said == major * 10000 + minor * 100 + patch


@pytest.mark.parametrize("probe", sorted(LIMITS))
def test_limits_are_of_numbers_that_the_probe_has(probe: str) -> None:
    text = "".join(
        (ROOT / "smoke" / f"{name}.py").read_text(encoding="utf-8") for name in (probe, "mla")
    )
    for number in LIMITS[probe].numbers:
        # `plain_worst_head`, `accepts_121`: the last or the first part is put in by the probe.
        parts = number.split("_", 1)
        assert number in text or parts[1] in text or f"{parts[0]}_{{" in text, number

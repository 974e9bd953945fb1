"""Planning the real line: pure, and what the facts say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.graph import Plan
from pipeline.plan import delta, make_plan
from pipeline.plan_base import OWN_LAYER
from pipeline.project import Project

PROJECT = Project(Path(__file__).parents[1])


def plan(base: str = "wheels", to: str | None = None) -> Plan:
    return make_plan(PROJECT.lock, PROJECT.chain, PROJECT.patches, base=base, to=to)


def test_steps_come_after_what_they_read() -> None:
    seen: set[str] = set()
    for step in plan().steps.values():
        assert seen.issuperset(step.after), step.id
        seen.add(step.id)


def test_large_wheels_have_a_layer_each_and_the_others_share_one() -> None:
    layers = [s for s in plan().steps.values() if s.program == "wheel-layer"]
    shared = next(step for step in layers if step.id == "base/wheels/shared")
    assert all((file.size or 0) < OWN_LAYER for file in shared.files)
    assert all(len(step.files) == 1 for step in layers if step is not shared)
    names = [file.name for step in layers for file in step.files]
    assert len(names) == len(set(names)) == 197


def test_to_plans_a_path_only() -> None:
    assert [image.name for image in plan(to="v4").images] == ["base", "v1", "v3", "v4"]
    assert [image.name for image in plan(to="base").images] == ["base"]


def test_held_stage_has_no_image_of_its_own() -> None:
    held = next(image for image in plan().images if image.name == "v9")
    assert (held.state, held.parent, held.layers) == ("held", "v8", ())


def test_inputs_of_a_stage_are_those_of_its_path_alone() -> None:
    whole = {image.name: image.inputs for image in plan().images}
    part = {image.name: image.inputs for image in plan(to="v4").images}
    assert part == {name: whole[name] for name in part}
    assert len(set(part.values())) == len(part)


def test_unknown_stage_and_base() -> None:
    with pytest.raises(UsageError, match="no stage 'v99'"):
        plan(to="v99")
    with pytest.raises(UsageError, match="no base 'none'"):
        plan(base="none")


def test_delta_is_by_file_not_by_version() -> None:
    wheels = PROJECT.lock.select("wheels")
    assert not delta(wheels, wheels)
    changed = delta(wheels, PROJECT.lock.select("wheels", ["v3"]))
    assert [wheel.name for wheel in changed.removed] == ["flashinfer-python"]
    assert [wheel.version for wheel in changed.installed] == ["0.6.18.post1"]


def test_what_only_an_audit_tolerates_is_no_input_of_a_layer() -> None:
    lock = PROJECT.lock
    assert any(one.rule == "library-copies" for one in lock.known)
    less = replace(lock, known=tuple(one for one in lock.known if one.rule != "library-copies"))
    with_it, without = (
        make_plan(one, PROJECT.chain, PROJECT.patches, base="wheels").steps for one in (lock, less)
    )
    changed = {step.program for name, step in with_it.items() if step != without[name]}
    assert changed == {"audit"}
    none = replace(lock, known=())
    fewer = make_plan(none, PROJECT.chain, PROJECT.patches, base="wheels").steps
    assert with_it["base/conflicts"] != fewer["base/conflicts"]

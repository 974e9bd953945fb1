"""Which image stands for a stage: its own, or its nearest built ancestor's."""

from __future__ import annotations

from pathlib import Path

from pipeline.base.image import known_base
from pipeline.chain import BUILT, ROOT
from pipeline.graph import Plan, PlannedImage
from pipeline.plan import make_plan
from pipeline.project import Project
from pipeline.subjects import Subject
from pipeline.wheels.house import default_cache

DIST = Path("dist")


def planned_image(project: Project, base: str, stage: str) -> tuple[Plan, PlannedImage]:
    """Return the plan up to a stage, and the image that stands for it.

    Raises UsageError without such a stage.
    """
    vendor = known_base(project.lock.base(base), default_cache())
    plan = make_plan(
        project.lock, project.chain, project.patches, base=base, to=stage, vendor=vendor
    )
    images = {image.name: image for image in plan.images}
    image = images[stage if stage == ROOT else project.chain.path(stage)[-1].name]
    while image.state != BUILT:
        image = images[image.parent]
    return plan, image


def standing_subject(subject: Subject, line: str, base: str) -> Subject:
    """Return a subject that can be opened: for a stage, its image in `dist/`."""
    if subject.transport != "stage":
        return subject
    project = Project(Path.cwd(), line)
    _, image = planned_image(project, base, subject.tag)
    return Subject("oci", DIST, image.tag, project.lock.base(base).image)

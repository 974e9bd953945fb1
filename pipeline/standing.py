"""Which image stands for a stage: its own, or its nearest built ancestor's."""

from __future__ import annotations

import json
from pathlib import Path

from pipeline.base.image import known_base
from pipeline.chain import BUILT, ROOT
from pipeline.errors import UsageError
from pipeline.graph import Plan, PlannedImage
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.reading import find_image
from pipeline.plan import make_plan
from pipeline.project import Project
from pipeline.subjects import Subject
from pipeline.wheels.house import default_cache

DIST = Path("dist")
_INPUTS = "dev.sm121-chain.inputs"


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


def built_image(planned: PlannedImage, dist: Path = DIST) -> ImageFile:
    """Return what was built of an image, in the layout `dist`; of the lock as it is now.

    Raises UsageError when it is not there, or of another lock, stage or patch.
    """
    image, _ = find_image(dist, planned.tag)
    inputs = (json.loads(image.manifest).get("annotations") or {}).get(_INPUTS, image.digest)
    if inputs != planned.inputs:
        raise UsageError(
            f"{dist}/ holds {planned.tag} of another lock, stage or patch than those here",
            hint=f"build it first: build --to {planned.name}",
        )
    return image


def standing_subject(subject: Subject, line: str, base: str) -> Subject:
    """Return a subject that can be opened: for a stage, its image in `dist/`."""
    if subject.transport != "stage":
        return subject
    project = Project(Path.cwd(), line)
    _, image = planned_image(project, base, subject.tag)
    return Subject("oci", DIST, image.tag, project.lock.base(base).image)

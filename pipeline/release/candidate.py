"""A candidate for a release: a stage's image as it was built, and what must be proven of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.chain import BUILT, ROOT
from pipeline.graph import PlannedImage
from pipeline.oci.imagefile import ImageFile
from pipeline.project import Project
from pipeline.release.gate import Wanted
from pipeline.standing import DIST, built_image, planned_image


@dataclass(frozen=True)
class Candidate:
    """A built image of the lock as it is now. `facts` are those that its release record states."""

    base: str
    line: str
    planned: PlannedImage
    image: ImageFile
    wanted: Wanted
    facts: dict[str, Any]


def load_candidate(project: Project, base: str, stage: str, dist: Path = DIST) -> Candidate:
    """Return the image that stands for a stage, out of the layout `dist`.

    Raises UsageError when there is none, or one of another lock, stage or patch.
    """
    plan, planned = planned_image(project, base, stage)
    image = built_image(planned, dist)
    wanted = Wanted(
        manifest=image.digest,
        fingerprint=image.fingerprint,
        created=created(image),
        probes=required_probes(project, planned.name),
    )
    path = project.chain.path(planned.name) if planned.name != ROOT else ()
    expectation = plan.steps[planned.gate[0]].params["expectation"]
    facts = {
        "pins": [
            {"name": name, "version": version, "sha256": sha256}
            for name, version, sha256 in expectation["distributions"]
        ],
        "patches": [
            {"stage": one.name, "name": name, "title": project.patches[name].title}
            for one in path
            if one.on(base).state == BUILT
            for name in one.patches
        ],
    }
    return Candidate(base, project.line, planned, image, wanted, facts)


def required_probes(project: Project, stage: str) -> tuple[str, ...]:
    """Return the probes that a stage's TOML requires; the base has none."""
    found = project.chain.stages.get(stage)
    return tuple(found.smoke) if found else ()


def created(image: ImageFile) -> float | None:
    """Return when an image says it was created, in unix seconds; None when it does not say."""
    try:
        moment = datetime.fromisoformat(str(image.document.get("created")))
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None

"""Step `audit`: an image against what the lock says for it.

params: image, layers, stages, parent (how many of the steps are of each kind), and an expectation
(see pipeline.expectations). Steps: layers lowest first, then the `stage` steps of its path, then
the parent's audit. Facts: findings, and how many distributions there are. What was read of
sources is handed on as answers.json, so that a chain's audits read each file once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.audit.memo import AuditMemo
from pipeline.audit.report import Baseline
from pipeline.audit.run import audit
from pipeline.inventory.answers import Answers, Table
from pipeline.oci.image import canonical
from pipeline.patching.scopes import scope_bytes
from pipeline.steps.layers import view_of
from pipeline.steps.params import expectation_from
from pipeline.steps.program import Inputs, Result, StepOutput

REPORT = "audit.json"
ANSWERS = "answers.json"
# One for the life of a worker process: the images of a chain share nearly all of their metadata.
_MEMO = AuditMemo()


def run(inputs: Inputs, out: Path) -> Result:
    """Audit, and write the full report as audit.json."""
    params = inputs.params
    layers = inputs.steps[: params["layers"]]
    stages = inputs.steps[params["layers"] : params["layers"] + params["stages"]]
    parents = inputs.steps[params["layers"] + params["stages"] :]
    before = _report(parents[0]) if parents else None
    answers = Answers(_MEMO.answers, _kept(inputs), partial(_answers, parents))
    after = _written(stages, params["expectation"]["sites"][0])
    # First the parent's tree: the image's own is that and a layer more.
    below = view_of("", layers[: len(before["layers"])], inputs) if before else None
    report = audit(
        view_of(params["image"], layers, inputs),
        expectation_from(params["expectation"], after),
        read_scope=scope_bytes,
        parent=Baseline.from_json(before) if before else None,
        memo=_MEMO,
        below=below,
        answers=answers,
    )
    (out / REPORT).write_bytes(canonical(report.to_json()))
    answers.keep()
    (out / ANSWERS).write_bytes(canonical(answers.handed_on()))
    return Result(
        {
            "findings": [finding.to_json() for finding in report.findings],
            "distributions": len(report.distributions),
        }
    )


def prepare(inputs: Inputs) -> None:
    """Read, and judge, what is known already of an image that is still being made: its lower
    layers, which are nearly all of it. What comes of that is thrown away; what was read stays.
    """
    layers = inputs.steps[: inputs.params["layers"]]
    if layers:
        view = view_of(inputs.params["image"], layers, inputs)
        expectation = expectation_from(inputs.params["expectation"], {})
        answers = Answers(_MEMO.answers, _kept(inputs))
        audit(view, expectation, read_scope=scope_bytes, memo=_MEMO, answers=answers)


def _report(step: StepOutput) -> dict[str, Any]:
    """Return the parent's report as its JSON object."""
    document: dict[str, Any] = json.loads((step.directory / REPORT).read_bytes())
    return document


def _answers(parents: Sequence[StepOutput]) -> Table:
    """Return the answers that the parent's audit hands on."""
    if not parents:
        return {}
    table: Table = json.loads((parents[0].directory / ANSWERS).read_bytes())
    return table


def _kept(inputs: Inputs) -> Path | None:
    return Path(inputs.kept) / "answers" if inputs.kept else None


def _written(stages: Sequence[StepOutput], site: str) -> dict[tuple[str, str], str]:
    """Return (patch, image path) -> hex sha256 that the patch left, where no later stage wrote.

    A file that a later stage edits proves nothing about earlier patches by its hash: of those the
    texts are looked for.
    """
    after: dict[str, str] = {}
    writers: dict[str, set[str]] = {}
    for step in stages:
        patches = step.facts["patches"]
        for file in step.facts["files"]:
            after[file["path"]] = file["after"]
            writers[file["path"]] = {
                patch["name"]
                for patch in patches
                if any(f"{site}/{edit['file']}" == file["path"] for edit in patch["edits"])
            }
    return {(name, path): after[path] for path, names in writers.items() for name in names}

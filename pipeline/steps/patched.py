"""Apply a stage's patches to its draft: all of them, or a refusal that names every failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.errors import Refusal
from pipeline.patching.evaluate import evaluate
from pipeline.patching.notes import Notes
from pipeline.patching.outcomes import EditResult, Evaluation, Outcome
from pipeline.patching.wire import patch_from_json
from pipeline.steps.draft import Draft


def apply_patches(
    draft: Draft, documents: Sequence[Mapping[str, Any]], notes: Notes | None = None
) -> list[dict[str, Any]]:
    """Edit the draft; return the outcome of each patch and edit, as JSON. `notes`: see `evaluate`.

    Raises Refusal unless every patch fits. One that the parent carries already is refused too: two
    stages that list one patch are a mistake in the chain.
    """
    if not documents:
        return []
    evaluation = evaluate(
        [patch_from_json(document) for document in documents],
        draft.read_site,
        draft.versions,
        draft.python,
        draft.distribution_files,
        notes,
    )
    twice = [p for p in evaluation.patches if p.outcome is Outcome.ALREADY_APPLIED]
    if not evaluation.fits or twice:
        raise _refusal(evaluation, [patch.name for patch in twice])
    for path, image in evaluation.files.items():
        draft.patch(path, image.data, image.before)
    return [
        {
            "name": patch.name,
            "distribution": patch.distribution,
            "variant": patch.variant,
            "outcome": patch.outcome.value,
            "edits": [
                {"id": edit.edit, "file": edit.file, "outcome": edit.outcome.value}
                for edit in patch.edits
            ],
        }
        for patch in evaluation.patches
    ]


def _refusal(evaluation: Evaluation, twice: Sequence[str]) -> Refusal:
    details = [
        f"patch {name}: already-applied: a stage below has made the same edits" for name in twice
    ]
    for patch in evaluation.patches:
        if patch.outcome.is_failure and not any(e.outcome.is_failure for e in patch.edits):
            details.append(f"patch {patch.name}: {patch.outcome.value}: {patch.message}")
    for edit in evaluation.failures:
        details += _lines(edit)
    return Refusal(
        "the patches of this stage do not fit; nothing was applied",
        details=details,
        hint="`show` tells what the stages below edit, `patches check` where the text is",
    )


def _lines(edit: EditResult) -> list[str]:
    scope = f" in {edit.within}" if edit.within else ""
    text = f"{edit.patch} {edit.edit}: {edit.outcome.value}: {edit.file}{scope}"
    lines = [f"{text}: expected {edit.expected}, found {edit.found}"]
    lines += [f"  {text}" for text in (edit.message, *edit.hints) if text]
    if edit.lines:
        lines.append(f"  lines {', '.join(map(str, edit.lines))}")
    return lines

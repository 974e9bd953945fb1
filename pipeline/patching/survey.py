"""Asks a release about patches, also about those that no variant names it for.

Where no variant fits, the nearest one is tried as if it were for this release. What then does not
fit is looked for: in its scope, in its file, in every other file of the distribution. Findings
become proposals; nothing here decides that a proposal is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pipeline.patching.diagnosis import Subject, diagnose, surroundings
from pipeline.patching.evaluate import Read, evaluate
from pipeline.patching.fitted import as_if, nearest_variant
from pipeline.patching.matching import occurrences
from pipeline.patching.model import Edit, Patch, Variant
from pipeline.patching.outcomes import EditResult, Outcome, PatchResult
from pipeline.patching.places import Key, Place, find_places, scope_span
from pipeline.patching.sources import Source
from pipeline.patching.upstream import evidence, followed, line_at, lost_tests
from pipeline.patching.variants import choose_variant
from pipeline.patching.verdicts import (
    EditReport,
    PatchReport,
    Proposal,
    State,
    Survey,
    Verdict,
)

Origins = Callable[[Patch, Variant], Read | None]
"""Reads the release that a variant was written for; None when it is not at hand."""

_SEARCHED = frozenset(
    {
        *(Outcome.ANCHOR_MISSING, Outcome.ANCHOR_AMBIGUOUS, Outcome.TARGET_MISSING),
        *(Outcome.SCOPE_MISSING, Outcome.SCOPE_AMBIGUOUS),
    }
)


@dataclass(frozen=True)
class _Asked:
    """A patch with the answer about one variant; `own` when that variant names the release."""

    patch: Patch
    variant: Variant
    own: bool
    result: PatchResult
    origin: Read | None

    def origin_of(self, edit: Edit) -> bytes | None:
        """An edit's file in the release that the variant was written for."""
        return self.origin(edit.file) if self.origin else None


def survey(
    patches: Sequence[Patch],
    source: Source,
    origins: Origins,
    others: Iterable[Patch] = (),
) -> Survey:
    """What `source` does to each of the patches, every patch by itself.

    `others` are patches that are not asked about: of two places that a scope may have moved to,
    the one nearer to files that patches edit is proposed.

    Raises OutsideTrouble when ruff does not run, and what the source's reader raises.
    """
    asked: dict[str, _Asked | PatchReport] = {}
    for patch in patches:
        asked[patch.name] = _ask(patch, source, origins)
    subjects: dict[Key, Subject] = {}
    wanted: dict[Key, tuple[Edit, bytes | None]] = {}
    for one in asked.values():
        if isinstance(one, _Asked):
            subjects |= _searched(one)
            lost = {} if one.own else lost_tests(one.patch.name, one.variant, source.read)
            wanted |= {key: (edit, one.origin_of(edit)) for key, edit in lost.items()}
    wanted |= {key: (subject.edit, subject.origin) for key, subject in subjects.items()}
    places: dict[Key, list[Place]] = {}
    known = [*patches, *others]
    for distribution in sorted({asked[name].patch.distribution for name, _ in wanted}):
        keys = [key for key in wanted if asked[key[0]].patch.distribution == distribution]
        places |= find_places(
            {key: wanted[key][0] for key in keys},
            {key: wanted[key][1] for key in keys},
            _edited(patch for patch in known if patch.distribution == distribution),
            source.candidates(distribution),
            source.read,
        )
    reports = tuple(
        one if isinstance(one, PatchReport) else _report(one, source, subjects, places)
        for one in asked.values()
    )
    return Survey(source.name, source.versions, source.python, reports)


def _ask(patch: Patch, source: Source, origins: Origins) -> _Asked | PatchReport:
    variant, outcome, message = choose_variant(patch, source.versions)
    own = variant is not None
    tried = patch
    if variant is None:
        version = source.versions.get(patch.distribution)
        variant = nearest_variant(patch, version) if version else None
        if outcome is not Outcome.NO_VARIANT or version is None or variant is None:
            return PatchReport(patch, State.DOES_NOT_FIT, None, False, message)
        tried = as_if(patch, variant, version)
    (result,) = evaluate([tried], source.read, source.versions, source.python).patches
    return _Asked(patch, variant, own, result, origins(patch, variant))


def _searched(one: _Asked) -> dict[Key, Subject]:
    results = {result.edit: result for result in one.result.edits}
    return {
        (one.patch.name, edit.id): Subject(edit, results[edit.id], one.origin_of(edit))
        for edit in one.variant.edits
        if edit.id in results and results[edit.id].outcome in _SEARCHED
    }


def _edited(patches: Iterable[Patch]) -> set[str]:
    return {edit.file for patch in patches for variant in patch.variants for edit in variant.edits}


def _report(
    one: _Asked,
    source: Source,
    subjects: dict[Key, Subject],
    places: dict[Key, list[Place]],
) -> PatchReport:
    tests = followed(one.patch.name, one.variant, places)
    found = [evidence(test, source.read) for test in tests]
    edits: list[EditReport] = []
    upstream = one.result.outcome is Outcome.UPSTREAM
    upstream = upstream or bool(found and all(found) and not one.own)
    if upstream:
        files = ", ".join(sorted({test.file for test in tests}))
        lines = tuple(line for line_or_none in found for line in line_or_none)
        edits = [
            EditReport(edit, Verdict.UPSTREAM, f"the fix is in {files}", lines)
            for edit in one.variant.edits
        ]
    else:
        for edit, result in zip(one.variant.edits, one.result.edits, strict=True):
            key = (one.patch.name, edit.id)
            if key in subjects:
                edits.append(diagnose(subjects[key], places[key], source.read))
            else:
                edits.append(_found(one, edit, result, source.read))
    state = State.UPSTREAM if upstream else _state(one, edits)
    needed = _needed(one, state)
    return PatchReport(one.patch, state, one.variant, one.own, needed, tuple(edits), tests)


def _found(one: _Asked, edit: Edit, result: EditResult, read: Read) -> EditReport:
    """The report about an edit whose anchor stands where it should, or is replaced already."""
    data = read(edit.file) or b""
    # the result's own lines count what earlier edits of the patch have put in
    scope = scope_span(edit.file, data, edit.within)
    text = edit.replace if result.outcome is Outcome.ALREADY_APPLIED else edit.find
    spans = occurrences(data, scope, text.encode()) if scope else ()
    lines = tuple(line_at(edit.file, data, start) for start, _ in spans[:5])
    if result.outcome in (Outcome.FITS, Outcome.APPLIED):
        read_why = surroundings(edit, one.origin_of(edit), data) if not one.own else ()
        return EditReport(edit, Verdict.APPLIES, "", lines, Proposal(edit, read=read_why))
    message = "; ".join(part for part in (result.message, *result.hints, result.note) if part)
    if result.outcome is Outcome.ALREADY_APPLIED:
        return EditReport(edit, Verdict.ALREADY_APPLIED, message, lines, Proposal(edit))
    return EditReport(edit, Verdict.REFUSED, f"{result.outcome}: {message}", lines)


def _state(one: _Asked, edits: Sequence[EditReport]) -> State:
    verdicts = {edit.verdict for edit in edits}
    if one.result.outcome is Outcome.NOT_NEEDED:
        return State.NOT_NEEDED
    if one.result.outcome.is_failure and not edits:
        return State.DOES_NOT_FIT
    if not all(verdict.is_fine for verdict in verdicts):
        return State.DOES_NOT_FIT
    if verdicts == {Verdict.ALREADY_APPLIED}:
        return State.ALREADY_APPLIED
    return State.FITS if one.own else State.NEEDS_VARIANT


def _needed(one: _Asked, state: State) -> str:
    """What a maintainer has to do, in one line, or nothing."""
    asked = f"no variant is for it; asked as if {one.variant.label} were" if not one.own else ""
    if state is State.NEEDS_VARIANT:
        todo = "every edit applies; a variant for this release is needed: `patches port`"
    elif state is State.DOES_NOT_FIT:
        todo = "a variant for this release is needed: see the edits, then `patches port`"
        todo = "its edits have to be changed" if one.own else todo
        todo = todo if one.variant.edits else one.result.message
    elif state in (State.UPSTREAM, State.ALREADY_APPLIED):
        todo = "the release has it: a line on this release can drop the patch"
    else:
        todo = one.result.message if state is State.NOT_NEEDED else ""
    return "; ".join(part for part in (asked, todo) if part)

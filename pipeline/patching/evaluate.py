"""Asks whether patches fit, all edits of all patches together, before anything is written.

Order and rules:
- The variant is chosen by version, then its upstream tests are asked on the files as they are:
  when all hold, the patch is `upstream` and its edits are not looked at. A variant without edits
  fails when one does not.
- Edits run in the given order, each on what the earlier ones left; scopes are found anew each
  time. An edit that touches, needs or duplicates text that an earlier edit wrote is a `conflict`:
  the result would depend on the order, and a later check could not tell the edits apart.
- The finished Python files must parse for the image's Python.
- Afterwards every edit is looked for in the finished files, as a second run would do it. One that
  would not be seen as already-applied there (its scope renamed, its text in another edit's
  replacement, its upstream test fulfilled by the patch itself) is a `conflict` too. So applying
  twice changes nothing, and a later check of the image means something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import PurePosixPath
from types import MappingProxyType

from packaging.version import Version

from pipeline.patching.encoding import PYTHON_SUFFIXES
from pipeline.patching.hints import holders
from pipeline.patching.model import Patch, Variant
from pipeline.patching.notes import Notes
from pipeline.patching.outcomes import EditResult, Evaluation, Outcome, PatchResult, PostImage
from pipeline.patching.syntax import syntax_faults
from pipeline.patching.variants import choose_variant
from pipeline.patching.workspace import Key, Workspace

Read = Callable[[str], bytes | None]
"""The bytes of a file by its path relative to site-packages, or None when there is none."""

Candidates = Callable[[str], Iterable[str]]
"""The files of a distribution (canonical name), to say where a text has moved to."""


def evaluate(
    patches: Sequence[Patch],
    read: Read,
    versions: Mapping[str, Version],
    python: str,
    candidates: Candidates | None = None,
    notes: Notes | None = None,
) -> Evaluation:
    """The answer about `patches`, applied in this order to the files that `read` gives.

    `versions` are the installed distributions by canonical name, `python` is the image's Python
    ("3.12"). `notes` spare asking about texts that were asked about before. Nothing is written.
    Raises OutsideTrouble when ruff does not run.
    """
    notes = notes or Notes()
    space = Workspace(read, notes)
    edits: dict[Key, EditResult] = {}
    chosen: list[tuple[Patch, Variant | None, PatchResult]] = []
    names: set[str] = set()
    for patch in patches:
        variant, outcome, message = choose_variant(patch, versions)
        label = variant.label if variant else ""
        if patch.name in names:
            variant, outcome, message = None, Outcome.CONFLICT, "it is listed twice"
        elif variant and variant.not_needed:
            message = variant.not_needed
            variant, outcome = None, Outcome.NOT_NEEDED
        elif variant and variant.upstream and all(map(space.holds, variant.upstream)):
            places = ", ".join(sorted({test.file for test in variant.upstream}))
            variant, outcome, message = None, Outcome.UPSTREAM, f"the fix is in {places}"
        elif variant and not variant.edits:
            lacking = next(test for test in variant.upstream if not space.holds(test))
            scope = f" in {lacking.within}" if lacking.within else ""
            message = f"said to be upstream, but {lacking.file}{scope} lacks {lacking.contains!r}"
            variant, outcome = None, Outcome.ANCHOR_MISSING
        names.add(patch.name)
        chosen.append(
            (patch, variant, PatchResult(patch.name, patch.distribution, label, outcome, message))
        )
        for edit in variant.edits if variant else ():
            edits[patch.name, edit.id] = space.apply(patch.name, edit)
    _check_syntax(space, edits, python, notes)
    _check_again(space, chosen, edits)
    _check_halves(chosen, edits)
    if candidates is not None:
        _look_elsewhere(space, chosen, edits, candidates)
    outcomes = [result.outcome for _, _, result in chosen]
    failed = any(o.is_failure for o in outcomes + [r.outcome for r in edits.values()])
    if not failed:
        for key, made in edits.items():
            if made.outcome is Outcome.FITS:
                edits[key] = changed(made, outcome=Outcome.APPLIED)
    results = tuple(
        _summed(result, [edits[patch.name, e.id] for e in variant.edits] if variant else [])
        for patch, variant, result in chosen
    )
    return Evaluation(results, MappingProxyType({} if failed else _post_images(space)))


def _check_again(
    space: Workspace,
    chosen: Sequence[tuple[Patch, Variant | None, PatchResult]],
    edits: dict[Key, EditResult],
) -> None:
    """Asks about every edit once more, as a second run on the finished files would."""
    broken = {r.file for r in edits.values() if r.outcome is Outcome.WOULD_NOT_PARSE}
    for patch, variant, _ in chosen:
        if variant is None:
            continue
        for edit in variant.edits:
            result = edits[patch.name, edit.id]
            if (
                result.outcome in (Outcome.FITS, Outcome.ALREADY_APPLIED)
                and edit.file not in broken
            ):
                problem = space.why_unseen(edit)
                if problem:
                    problem = f"with all edits made, it would not be seen as applied: {problem}"
                    _set(edits, result, Outcome.CONFLICT, problem)
        fitting = [edits[patch.name, e.id] for e in variant.edits]
        fitting = [result for result in fitting if result.outcome is Outcome.FITS]
        if fitting and variant.upstream and all(map(space.holds_now, variant.upstream)):
            _set(
                edits,
                fitting[0],
                Outcome.CONFLICT,
                "with the patch applied its own upstream test holds, so the patch would be called"
                " upstream: let the test name text that only the release has",
            )


def _check_syntax(
    space: Workspace, edits: dict[Key, EditResult], python: str, notes: Notes
) -> None:
    question = f"parses for Python {python}"
    after = {
        path: data
        for path, (_, data) in space.changed().items()
        if path.endswith(tuple(PYTHON_SUFFIXES)) and not notes.recall(question, data)
    }
    faults = syntax_faults(after, python)
    for path in after.keys() - faults.keys():
        notes.note(question, after[path], True)
    before = syntax_faults(
        {path: data for path, (data, _) in space.changed().items() if path in faults}, python
    )
    for result in list(edits.values()):
        if result.outcome is not Outcome.FITS or result.file not in faults:
            continue
        if result.file in before:
            note = f"the file does not parse for Python {python} before the edit either"
            edits[result.patch, result.edit] = changed(
                result, note=f"{note} ({before[result.file][0]})"
            )
        else:
            fault = faults[result.file][0]
            message = f"the edited file would not parse for Python {python}: {fault}"
            lines = tuple(fault.line for fault in faults[result.file])
            _set(edits, changed(result, lines=lines), Outcome.WOULD_NOT_PARSE, message)


def _check_halves(
    chosen: Sequence[tuple[Patch, Variant | None, PatchResult]], edits: dict[Key, EditResult]
) -> None:
    """A patch of which some edits are made and others are not is in no known state."""
    for patch, variant, _ in chosen:
        results = [edits[patch.name, edit.id] for edit in variant.edits] if variant else []
        done = [r.edit for r in results if r.outcome is Outcome.ALREADY_APPLIED]
        for result in results if done else ():
            if result.outcome is Outcome.FITS:
                message = (
                    f"it would fit, but {', '.join(done)} of the same patch is applied already"
                )
                _set(edits, result, Outcome.PARTIALLY_APPLIED, message)


def _look_elsewhere(
    space: Workspace,
    chosen: Sequence[tuple[Patch, Variant | None, PatchResult]],
    edits: dict[Key, EditResult],
    candidates: Candidates,
) -> None:
    """Says which other files of the distribution hold an anchor that its own file lacks."""
    wanted: dict[str, dict[Key, bytes]] = {}
    for patch, variant, _ in chosen:
        for edit in variant.edits if variant else ():
            result = edits[patch.name, edit.id]
            if result.outcome is Outcome.TARGET_MISSING or (
                result.outcome in (Outcome.ANCHOR_MISSING, Outcome.SCOPE_MISSING)
                and edit.find.encode() not in (space.current(edit.file) or b"")
            ):
                wanted.setdefault(patch.distribution, {})[patch.name, edit.id] = edit.find.encode()
    for distribution, texts in wanted.items():
        suffixes = {PurePosixPath(edits[key].file).suffix for key in texts}
        files = [f for f in sorted(candidates(distribution)) if PurePosixPath(f).suffix in suffixes]
        for key, paths in holders(texts, files, space.read).items():
            result = edits[key]
            hints = [f"{path} holds the anchor" for path in paths if path != result.file][:3]
            if not hints and result.outcome is Outcome.TARGET_MISSING:
                name = result.file.rpartition("/")[2]
                named = [path for path in files if path.rpartition("/")[2] == name]
                hints = [f"{path} has its name, but not the anchor" for path in named][:3]
            edits[key] = changed(result, hints=(*result.hints, *hints))


def _set(edits: dict[Key, EditResult], result: EditResult, outcome: Outcome, message: str) -> None:
    edits[result.patch, result.edit] = changed(result, outcome=outcome, message=message)


def _summed(result: PatchResult, edits: Sequence[EditResult]) -> PatchResult:
    """The patch's outcome is its first failure, else what its edits have in common."""
    if edits:
        outcomes = [edit.outcome for edit in edits]
        failed = [outcome for outcome in outcomes if outcome.is_failure]
        result = changed(result, outcome=(failed or outcomes)[0], edits=tuple(edits))
    return result


def _post_images(space: Workspace) -> dict[str, PostImage]:
    return {
        path: PostImage(path, _sha256(before), _sha256(after), after)
        for path, (before, after) in sorted(space.changed().items())
    }


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

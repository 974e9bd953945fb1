"""Whether patches stand in the merged tree of an image."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.audit.expectation import PatchExpectation, Probe
from pipeline.oci.tree import Located
from pipeline.oci.view import ImageView

ScopeReader = Callable[[str, bytes, str], bytes | None]
"""(path, content, dotted scope) -> the bytes of that scope, None when it is not there once."""


def no_scopes(path: str, data: bytes, name: str) -> bytes | None:
    """The scope reader of audits whose patches name no scopes: there is never such a scope."""
    return None


@dataclass(frozen=True)
class PatchState:
    """A patch and what became of it: `located` is its file, None when that is gone; `lost` says
    what shows that the patch is not in it; `exact` is whether nothing else was edited there."""

    patch: PatchExpectation
    located: Located | None
    lost: tuple[str, ...] = ()
    exact: bool = True


def judge_patches(
    view: ImageView, patches: Sequence[PatchExpectation], read_scope: ScopeReader
) -> tuple[PatchState, ...]:
    """Look for every patch; all files are read in one batch.

    Texts decide, not the hash of the whole file: a later stage may edit the same file again.
    """
    places: dict[str, Located] = {}
    for patch in patches:
        located = view.tree.resolve(patch.file)
        if located is not None and located.entry.has_content:
            places[patch.file] = located
    paths = sorted({located.entry.path for located in places.values()})
    contents = view.read_many(paths) if paths else {}
    states = []
    for patch in patches:
        place = places.get(patch.file)
        if place is None:
            states.append(PatchState(patch, None, ("its file is gone",)))
            continue
        data = contents[place.entry.path]
        exact = not patch.post_sha256 or hashlib.sha256(data).hexdigest() == patch.post_sha256
        lost = () if patch.post_sha256 and exact else _lost(patch, data, read_scope)
        states.append(PatchState(patch, place, lost, exact))
    return tuple(states)


def _lost(patch: PatchExpectation, data: bytes, read_scope: ScopeReader) -> tuple[str, ...]:
    wrong = []
    for probe in patch.must_contain:
        count = _count(patch.file, data, probe, read_scope)
        if count is None or count < probe.count:
            wrong.append(f"the replacement is missing{_where(probe)}: {_quote(probe)}")
    for probe in patch.must_not:
        if _count(patch.file, data, probe, read_scope):
            wrong.append(f"the replaced text is back{_where(probe)}: {_quote(probe)}")
    return tuple(wrong)


def _count(path: str, data: bytes, probe: Probe, read_scope: ScopeReader) -> int | None:
    """Occurrences in the probe's scope; None when there is no such scope."""
    text = read_scope(path, data, probe.within) if probe.within else data
    return None if text is None else text.count(probe.text)


def _where(probe: Probe) -> str:
    return f" in {probe.within}" if probe.within else ""


def _quote(probe: Probe) -> str:
    lines = probe.text.decode("utf-8", "backslashreplace").strip().splitlines()
    return (lines[0].strip() if lines else "") + (" …" if len(lines) > 1 else "")

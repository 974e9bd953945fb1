"""Turns an edited copy of files into a patch, and proves that the patch makes that copy.

Each change becomes an edit with the shortest good anchor (see `anchors`) in the innermost scope
where it can be found again afterwards. Changes that no anchor can tell apart are joined.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from pipeline.errors import FaultyFile, Refusal
from pipeline.patching.anchors import shortest_anchor
from pipeline.patching.encoding import Encoding, EncodingFault, NotText, detect
from pipeline.patching.evaluate import evaluate
from pipeline.patching.fitted import as_if
from pipeline.patching.hints import line_of
from pipeline.patching.hunks import Hunk, find_hunks
from pipeline.patching.loading import load_patch
from pipeline.patching.matching import Span
from pipeline.patching.model import Edit, Patch, Variant
from pipeline.patching.outcomes import EditResult, Outcome
from pipeline.patching.scopes import ScopeFault, find_scope, scopes_around
from pipeline.patching.writing import patch_text

_ASCII = 0x7F

Texts = Mapping[str, tuple[bytes, bytes]]
"""Old and new bytes by path relative to site-packages."""


@dataclass(frozen=True)
class Captured:
    """A patch and its file's text, which was read back and proved."""

    patch: Patch
    text: str


def capture(name: str, requirement: Requirement, files: Texts, python: str) -> Captured:
    """The patch that makes every file's new bytes of its old ones.

    `requirement` says which releases it is for; `python` ("3.11") is what the files must parse for.
    Raises Refusal when a change cannot be expressed, or when the proof fails.
    """
    plain: set[str] = set()
    while True:
        patch = _patch(name, requirement, files, plain)
        text = patch_text(patch)
        failed = _failures(patch, text, files, python)
        scoped = {
            result.file
            for result in failed
            if result.file not in plain and result.outcome is not Outcome.WOULD_NOT_PARSE
        }
        if not failed:
            return Captured(patch, text)
        if not scoped:
            details = [f"{r.file} {r.edit}: {r.outcome}: {r.message}" for r in failed]
            raise Refusal("the change cannot be expressed as edits that are safe", details=details)
        # a change that breaks or renames scopes takes the other edits' scopes along
        plain |= scoped


def _patch(name: str, requirement: Requirement, files: Texts, plain: Collection[str]) -> Patch:
    """The patch; in files of `plain` no edit names a scope."""
    edits: list[Edit] = []
    for path, (old, new) in sorted(files.items()):
        edits += _edits(path, old, new, scoped=path not in plain)
    if not edits:
        raise Refusal("the two do not differ, so there is nothing to capture")
    edits = [replace(edit, id=f"{name}.{number}") for number, edit in enumerate(edits, 1)]
    names = ", ".join(sorted(files))
    return Patch(
        name=name,
        title=f"Edits of {names}" if len(files) < 3 else f"Edits of {len(files)} files",
        why="Captured from an edited copy. Say here what goes wrong without it.\n",
        upstream="",
        distribution=str(canonicalize_name(requirement.name)),
        variants=(Variant(requirement, tuple(edits)),),
    )


def _edits(path: str, old: bytes, new: bytes, *, scoped: bool) -> list[Edit]:
    try:
        encoding = detect(path, old)
        detect(path, new)
    except (NotText, EncodingFault) as error:
        raise Refusal(f"{path} {error}: it cannot be patched") from error
    hunks = find_hunks(old, new)
    made: list[tuple[str | None, Span]] = []
    while len(made) < len(hunks):
        place = _place(path, old, new, hunks, made, scoped=scoped, ascii=bool(encoding.problem))
        if place:
            made.append(place)
            continue
        if len(hunks) == 1:
            raise _inexpressible(path, old, hunks[0])
        number = len(made)
        first = number if number + 1 < len(hunks) else number - 1
        hunks[first : first + 2] = [hunks[first].joined(hunks[first + 1], old)]
        del made[first:]
    return [
        Edit("", path, *_texts(path, old, encoding, hunk, span), within)
        for hunk, (within, span) in zip(hunks, made, strict=True)
    ]


def _place(
    path: str,
    old: bytes,
    new: bytes,
    hunks: list[Hunk],
    made: list[tuple[str | None, Span]],
    *,
    scoped: bool,
    ascii: bool,
) -> tuple[str | None, Span] | None:
    """Scope and anchor of the next hunk, between what its neighbours write.

    `ascii` keeps the anchor free of bytes beyond ASCII: their file does not say what they mean.
    """
    number = len(made)
    hole = hunks[number].span
    low = made[-1][1][1] if made else 0
    high = hunks[number + 1].span[0] if number + 1 < len(hunks) else len(old)
    if low > hole[0]:
        return None
    if ascii:
        low, high = _ascii_around(old, hole, (low, high))
    scopes: list[tuple[str | None, Span]] = [
        (name, (scope.start, scope.end)) for name, scope in scopes_around(path, old, *hole)
    ]
    scopes = scopes if scoped else []
    for within, scope in [*scopes, (None, (0, len(old)))]:
        final = _scope_text(path, new, within)
        if final is None:
            continue
        limits = (max(low, scope[0]), min(high, scope[1]))
        text = hunks[number].text
        span = shortest_anchor(old, scope, hole, text, limits=limits, finals=[final])
        if span:
            return within, span
    return None


def _ascii_around(data: bytes, hole: Span, limits: Span) -> Span:
    before = data[limits[0] : hole[0]]
    after = data[hole[1] : limits[1]]
    head = next((i for i in range(len(before), 0, -1) if before[i - 1] > _ASCII), 0)
    tail = next((i for i, byte in enumerate(after) if byte > _ASCII), len(after))
    return limits[0] + head, hole[1] + tail


def _scope_text(path: str, data: bytes, within: str | None) -> bytes | None:
    if within is None:
        return data
    try:
        scope = find_scope(path, data, within)
    except ScopeFault:
        return None
    return data[scope.start : scope.end]


def _texts(path: str, old: bytes, encoding: Encoding, hunk: Hunk, span: Span) -> tuple[str, str]:
    """Anchor and replacement as text that becomes the same bytes again."""
    find = old[slice(*span)]
    made = old[span[0] : hunk.span[0]] + hunk.text + old[hunk.span[1] : span[1]]
    texts = []
    for data in (find, made):
        try:
            text = data.decode("ascii" if encoding.problem else encoding.codec)
            same = encoding.encode(text) == data
        except (UnicodeDecodeError, EncodingFault):
            same = False
        if not same:
            where = f"{path} line {line_of(old, span[0])}"
            problem = encoding.problem or f"not the same in {encoding.name} after reading it"
            raise Refusal(f"{where}: the change holds text that no anchor can name: {problem}")
        texts.append(text)
    return texts[0], texts[1]


def _inexpressible(path: str, old: bytes, hunk: Hunk) -> Refusal:
    where = f"{path} line {line_of(old, hunk.span[0])}"
    if not old:
        return Refusal(f"{path} is empty: an edit needs text to hold on to")
    return Refusal(
        f"{where}: no anchor can hold this change",
        hint="what is deleted at the very start or end of a file leaves nothing to recognise the"
        " edit by: leave a comment in its place",
    )


def _failures(patch: Patch, text: str, files: Texts, python: str) -> tuple[EditResult, ...]:
    """Reads the text back, applies it to the old files, and compares with the new ones.

    The edits that do not apply; none when everything is as it should be.
    """
    with tempfile.TemporaryDirectory(prefix="sm121-capture-") as directory:
        path = Path(directory, f"{patch.name}.toml")
        path.write_text(text, encoding="utf-8", newline="\n")
        try:
            read = load_patch(path)
        except FaultyFile as error:
            raise Refusal("the change makes no valid patch", details=error.details) from error
    if read != patch:
        raise Refusal("the patch does not survive being written and read")
    version = Version("1")
    proof = as_if(patch, patch.variants[0], version)
    olds = {name: old for name, (old, _) in files.items()}
    done = evaluate([proof], olds.get, {patch.variants[0].requirement.name: version}, python)
    if not done.fits:
        return done.failures
    for name, (old, new) in files.items():
        if (done.files[name].data if name in done.files else old) != new:
            raise Refusal(f"{name}: applying the patch does not give the new bytes")
    return ()

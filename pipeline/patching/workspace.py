"""The files of one evaluation as the edits leave them, and who wrote which bytes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pipeline.patching.encoding import EncodingFault, NotText, detect
from pipeline.patching.hints import line_of, near_misses
from pipeline.patching.matching import Match, Span, match, occurrences
from pipeline.patching.model import Edit, UpstreamTest
from pipeline.patching.notes import Notes
from pipeline.patching.outcomes import EditResult, Outcome
from pipeline.patching.scopes import ScopeAmbiguous, ScopeMissing, find_scope

Key = tuple[str, str]
"""A patch's name and an edit's id."""


@dataclass(frozen=True)
class _Region:
    """Bytes that an edit has written, or had written before this run."""

    start: int
    end: int
    owner: Key


@dataclass
class _File:
    original: bytes
    data: bytes
    regions: list[_Region] = field(default_factory=list)

    def owner(self, spans: Sequence[Span]) -> Key | None:
        """Who wrote bytes that one of the spans holds."""
        for start, end in spans:
            for region in self.regions:
                if start < region.end and region.start < end:
                    return region.owner
        return None

    def splice(self, spans: Sequence[Span], text: bytes, owner: Key) -> None:
        """Puts `text` in place of every span; spans are sorted, and free of other's bytes."""
        pieces, position, moved = [], 0, 0
        written: list[_Region] = []
        for start, end in spans:
            pieces += [self.data[position:start], text]
            written.append(_Region(start + moved, start + moved + len(text), owner))
            moved += len(text) - (end - start)
            position = end
        pieces.append(self.data[position:])
        self.regions = [self._shifted(region, spans, len(text)) for region in self.regions]
        self.regions += written
        self.data = b"".join(pieces)

    @staticmethod
    def _shifted(region: _Region, spans: Sequence[Span], length: int) -> _Region:
        by = sum(length - (end - start) for start, end in spans if end <= region.start)
        return _Region(region.start + by, region.end + by, region.owner)


class _Problem(Exception):
    """Why an edit cannot even be looked for: raised and caught in this module."""

    def __init__(self, outcome: Outcome, message: str, lines: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.lines = lines


@dataclass(frozen=True)
class _Sought:
    """An edit in the bytes of its file: the texts, the scope, and how they match."""

    find: bytes
    replace: bytes
    scope: Span
    match: Match


class Workspace:
    """Files by path, read once each, edited in memory only. `notes` spare looking for scopes."""

    def __init__(self, read: Callable[[str], bytes | None], notes: Notes | None = None) -> None:
        self.read = read
        self._notes = notes or Notes()
        self._files: dict[str, _File | None] = {}

    def current(self, path: str) -> bytes | None:
        """The file as the edits so far leave it, or None when there is none."""
        file = self._file(path)
        return file.data if file else None

    def changed(self) -> dict[str, tuple[bytes, bytes]]:
        """Before and after of every file that differs."""
        return {
            path: (file.original, file.data)
            for path, file in self._files.items()
            if file and file.original != file.data
        }

    def holds(self, test: UpstreamTest) -> bool:
        """Whether an upstream test holds in its file as it was; never when that is no text."""
        file = self._file(test.file)
        return self._holds(test, file.original if file else None)

    def holds_now(self, test: UpstreamTest) -> bool:
        """Whether an upstream test holds in its file as the edits so far leave it."""
        return self._holds(test, self.current(test.file))

    def apply(self, patch: str, edit: Edit) -> EditResult:
        """Makes one edit if it fits; says what came of it."""
        file = self._file(edit.file)
        key = (patch, edit.id)
        if file is None:
            return _result(patch, edit, Outcome.TARGET_MISSING, "there is no such file")
        try:
            sought = self._seek(edit, file.data)
        except _Problem as problem:
            return _result(patch, edit, problem.outcome, problem.message, lines=problem.lines)
        found = sought.match
        lines = tuple(line_of(file.data, start) for start, _ in found.anchors)
        outcome, message = found.outcome, found.message
        hints: tuple[str, ...] = ()
        if outcome is Outcome.ANCHOR_MISSING:
            outcome, message, hints, lines = self._missing(edit, file, sought)
        owner = file.owner((*found.anchors, *found.replaced))
        if owner:
            outcome, hints = Outcome.CONFLICT, ()
            message = f"{' '.join(owner)} has written this text"
        elif outcome is Outcome.FITS:
            file.splice(found.anchors, sought.replace, key)
        elif outcome is Outcome.ALREADY_APPLIED:
            lines = tuple(line_of(file.data, start) for start, _ in found.replaced)
            file.regions += [_Region(start, end, key) for start, end in found.replaced]
        return _result(
            patch, edit, outcome, message, found=len(found.anchors), lines=lines, hints=hints
        )

    def why_unseen(self, edit: Edit) -> str:
        """Why an edit would not be called already-applied in the file as it is now, or ""."""
        data = self.current(edit.file)
        if data is None:
            return "there is no such file"
        try:
            found = self._seek(edit, data).match
        except _Problem as problem:
            return problem.message
        if found.outcome is Outcome.FITS:
            return "its anchor stands there again"
        return "" if found.outcome is Outcome.ALREADY_APPLIED else found.message

    def _missing(
        self, edit: Edit, file: _File, sought: _Sought
    ) -> tuple[Outcome, str, tuple[str, ...], tuple[int, ...]]:
        message = sought.match.message
        if file.regions and file.data != file.original:
            try:
                before = self._seek(edit, file.original).match
            except _Problem:
                before = None
            if before and before.anchors:
                owners = sorted({" ".join(region.owner) for region in file.regions})
                taken = f"the anchor stood there before {', '.join(owners)}"
                return Outcome.CONFLICT, taken, (), ()
        hint, lines = near_misses(edit.file, file.data, sought.scope, sought.find)
        return Outcome.ANCHOR_MISSING, message, (hint,) if hint else (), lines

    def _file(self, path: str) -> _File | None:
        if path not in self._files:
            data = self.read(path)
            self._files[path] = None if data is None else _File(data, data)
        return self._files[path]

    def _holds(self, test: UpstreamTest, data: bytes | None) -> bool:
        if data is None:
            return False
        try:
            text = detect(test.file, data).encode(test.contains)
            scope = self._scope(test.file, data, test.within)
        except (NotText, EncodingFault, _Problem):
            return False
        return bool(occurrences(data, scope, text))

    def _seek(self, edit: Edit, data: bytes) -> _Sought:
        try:
            encoding = detect(edit.file, data)
        except NotText as error:
            raise _Problem(Outcome.NOT_TEXT, str(error)) from error
        except EncodingFault as error:
            raise _Problem(Outcome.ENCODING, str(error)) from error
        texts = []
        for name, text in (("find", edit.find), ("replace", edit.replace)):
            try:
                texts.append(encoding.encode(text))
            except EncodingFault as error:
                raise _Problem(Outcome.ENCODING, f"{name}: {error}") from error
        find, replace = texts
        scope = self._scope(edit.file, data, edit.within)
        return _Sought(find, replace, scope, match(data, scope, find, replace, edit.count))

    def _scope(self, path: str, data: bytes, within: str | None) -> Span:
        if within is None:
            return 0, len(data)
        question = f"scope {within} in {PurePosixPath(path).suffix}"
        noted = self._notes.recall(question, data)
        if noted is not None:
            start, end = noted
            return start, end
        try:
            scope = find_scope(path, data, within)
        except ScopeMissing as error:
            raise _Problem(Outcome.SCOPE_MISSING, str(error), error.lines) from error
        except ScopeAmbiguous as error:
            raise _Problem(Outcome.SCOPE_AMBIGUOUS, str(error), error.lines) from error
        self._notes.note(question, data, [scope.start, scope.end])
        return scope.start, scope.end


def _result(
    patch: str,
    edit: Edit,
    outcome: Outcome,
    message: str,
    *,
    found: int = 0,
    lines: tuple[int, ...] = (),
    hints: tuple[str, ...] = (),
) -> EditResult:
    return EditResult(
        patch=patch,
        edit=edit.id,
        file=edit.file,
        within=edit.within,
        outcome=outcome,
        message=message,
        expected=edit.count,
        found=found,
        lines=lines,
        hints=hints,
    )

"""Why an edit does not fit a release: moved, drifted or gone, with a proposal where there is one.

A proposal never accepts more than the edit did without saying so: its count stays, a scope is never
left out, and a new anchor is shown beside the old one and has to be read by a person.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.patching.drift import Drift, base_of, find_drift, indent_at, reindented
from pipeline.patching.encoding import EncodingFault, NotText, detect
from pipeline.patching.hints import line_of
from pipeline.patching.matching import Span, occurrences
from pipeline.patching.model import Edit
from pipeline.patching.outcomes import EditResult, Outcome
from pipeline.patching.places import KIN, SAME, Place, Read, file_likeness, origin_span, scope_span
from pipeline.patching.verdicts import EditReport, Line, Proposal, Verdict

_SHOWN = 3


@dataclass(frozen=True)
class Subject:
    """An edit that was not found. `origin` is its file in the release that it was written for."""

    edit: Edit
    result: EditResult
    origin: bytes | None


def diagnose(subject: Subject, places: Sequence[Place], read: Read) -> EditReport:
    """The report about an edit that was not found; `places` are the best first."""
    edit = subject.edit
    data = read(edit.file)
    scope = scope_span(edit.file, data, edit.within) if data is not None else None
    others = [p for p in places if (p.file, p.within) != (edit.file, edit.within)]
    exact = _exact(subject, others)
    enough = SAME  # above it a moved anchor is surer than a changed one in its old scope
    if edit.within is None and data is not None and subject.origin is not None:
        # its file is still there: what another one would have to be more like than this one
        enough = file_likeness(subject.origin, data)
    if exact and (scope is None or exact.likeness >= enough):
        return _moved(subject, exact, others, read)
    if data is not None and scope is not None:
        drift = _drift(subject, data, scope)
        if drift:
            return _drifted(subject, data, drift)
        if exact:
            return _moved(subject, exact, others, read)
        if subject.result.outcome is Outcome.ANCHOR_AMBIGUOUS:
            return EditReport(edit, Verdict.DRIFTED, subject.result.message, _lines(subject, data))
        return _gone(subject, data, f"nothing in {edit.within or 'the file'} is like its anchor")
    namesakes = [place for place in others if place.named]
    if namesakes:
        return _moved(subject, namesakes[0], others, read)
    if subject.result.outcome is Outcome.SCOPE_AMBIGUOUS:
        return EditReport(edit, Verdict.DRIFTED, subject.result.message, _lines(subject, data))
    missing = "" if data is not None else f", and there is no {edit.file}"
    holding = list(dict.fromkeys(place.file for place in others if place.holds))
    if holding:
        what = f"{edit.within or 'the text of its file'} is not in the distribution{missing}"
        more = f" and {len(holding) - _SHOWN} more" if len(holding) > _SHOWN else ""
        where = ", ".join(holding[:_SHOWN]) + more
        return _gone(subject, data, f"{what}; nothing shows that its anchor in {where} is the one")
    what = f"neither {edit.within} nor its anchor is" if edit.within else "its anchor is not"
    return _gone(subject, data, f"{what} anywhere in the distribution{missing}")


def surroundings(edit: Edit, origin: bytes | None, data: bytes) -> tuple[str, ...]:
    """Why a person must look at an edit whose anchor still stands: what changed around it."""
    if origin is None:
        return ("the release that it was written for is not at hand to compare with",)
    old, new = scope_span(edit.file, origin, edit.within), scope_span(edit.file, data, edit.within)
    if old is None or new is None:
        return ("its scope is not in the release that it was written for",)
    before, after = origin[slice(*old)].splitlines(), data[slice(*new)].splitlines()
    if before == after or edit.within is None:
        return () if before == after else ("it names no scope, and its file has changed",)
    gone, new_lines = Counter(before) - Counter(after), Counter(after) - Counter(before)
    counts = f"{gone.total()} of its {len(before)} lines are gone, {new_lines.total()} are new"
    return (f"{edit.within} has changed: {counts}",)


def _exact(subject: Subject, places: Sequence[Place]) -> Place | None:
    """The best place that holds the anchor and is not there by chance."""
    holding = [place for place in places if place.holds]
    for place in holding:
        alone = subject.origin is None and len(holding) == 1 and subject.edit.within is not None
        if place.named or place.likeness >= KIN or alone:
            return place
    return None


def _drift(subject: Subject, data: bytes, scope: Span) -> Drift | None:
    edit, origin = subject.edit, subject.origin
    if edit.count != 1:
        return None
    own = origin_span(edit, origin)
    old = scope_span(edit.file, origin, edit.within) if origin is not None else None
    find, made = edit.find.encode(), edit.replace.encode()
    if origin is None or own is None or old is None:
        base = base_of(find, made, None, (0, 0), (0, 0))
    else:
        base = base_of(find, made, origin, old, own)
    return find_drift(data, scope, base, find)


def _drifted(subject: Subject, data: bytes, drift: Drift) -> EditReport:
    edit = subject.edit
    lines = _span_lines(edit.file, data, drift.span)
    proposal = _reworded(edit, data, drift)
    message = subject.result.message
    if proposal is None:
        message += "; what upstream changed there touches what the edit changes: write it by hand"
    return EditReport(edit, Verdict.DRIFTED, message, lines, proposal)


def _reworded(edit: Edit, data: bytes, drift: Drift) -> Proposal | None:
    """The edit with the anchor and the replacement that a drift found."""
    if drift.edit is None:
        return None
    (start, end), made = drift.edit
    try:
        codec = detect(edit.file, data)
        find, replacement = data[start:end].decode(codec.codec), made.decode(codec.codec)
    except (NotText, EncodingFault, UnicodeDecodeError):
        return None
    changes = [f"anchor {_quoted(edit.find)} -> {_quoted(find)}"]
    if replacement != edit.replace:
        changes.append(f"replacement {_quoted(edit.replace)} -> {_quoted(replacement)}")
    why = "its anchor is a new one: see that the text around it still means the same"
    return Proposal(replace(edit, find=find, replace=replacement), tuple(changes), (why,))


def _moved(subject: Subject, place: Place, places: Sequence[Place], read: Read) -> EditReport:
    edit = subject.edit
    data = read(place.file) or b""
    where = place.file if place.file != edit.file else "the same file"
    scope = scope_span(place.file, data, place.within) or (0, len(data))
    message = f"{place.within or 'the text of its file'} is in {where} now"
    if edit.within is not None and place.within != edit.within:
        message = f"its anchor is in {place.within or 'module level'} of {where} now"
    rivals = [other for other in places if other.named == place.named]
    shown = [other.file for other in rivals if other.holds == place.holds]
    shown = [file for file in dict.fromkeys(shown) if file != place.file][:_SHOWN]
    target = replace(edit, file=place.file, within=place.within)
    changes = [f"file {edit.file} -> {place.file}"] if place.file != edit.file else []
    if place.within != edit.within:
        changes.append(f"scope {edit.within} -> {place.within}")
    why = ["it is in another place: see that this is the one that runs"]
    what = "name" if place.named and place.within else "anchor"
    if shown:
        why.append(f"the same {what} stands in {', '.join(shown)} too")
    if edit.within is not None and place.within is None:
        # an edit without a scope would accept more than this one did
        lines = _span_lines(place.file, data, scope)[:1]
        return EditReport(edit, Verdict.MOVED, f"{message}; write it by hand", lines)
    if place.holds:
        spans = occurrences(data, scope, edit.find.encode())
        target, deeper = _at_depth(target, subject, data, spans[0])
        changes += deeper
        lines = _span_lines(place.file, data, spans[0])
        proposal: Proposal | None = Proposal(target, tuple(changes), tuple(why))
        return EditReport(edit, Verdict.MOVED, message, lines, proposal)
    drift = _drift(subject, data, scope)
    also = f" (and in {', '.join(shown)})" if shown else ""
    message += f"{also}, and its anchor is not in it"
    if drift is None:
        lines = _span_lines(place.file, data, scope)[:1]
        return EditReport(edit, Verdict.MOVED, f"{message}; write it by hand", lines)
    found = _reworded(target, data, drift)
    message += "" if found else "; write it by hand"
    if found:
        found = replace(found, changes=(*changes, *found.changes), read=(*why, *found.read))
    return EditReport(
        edit, Verdict.MOVED, message, _span_lines(place.file, data, drift.span), found
    )


def _at_depth(edit: Edit, subject: Subject, data: bytes, span: Span) -> tuple[Edit, list[str]]:
    """The edit with its replacement as deep as the anchor's new place asks for."""
    own = origin_span(subject.edit, subject.origin)
    if subject.origin is None or own is None or "\n" not in edit.replace:
        return edit, []
    by = indent_at(data, span[0]) - indent_at(subject.origin, own[0])
    if not by:
        return edit, []
    made = reindented(edit.replace.encode(), by).decode()
    return replace(edit, replace=made), [f"replacement indented by {by:+d}"]


def _gone(subject: Subject, data: bytes | None, message: str) -> EditReport:
    hints = "; ".join(subject.result.hints)
    message = f"{message} ({hints})" if hints else message
    return EditReport(subject.edit, Verdict.GONE, message, _lines(subject, data))


def _lines(subject: Subject, data: bytes | None) -> tuple[Line, ...]:
    lines = (data or b"").splitlines()
    return tuple(
        Line(subject.edit.file, number, lines[number - 1].decode("utf-8", "replace"))
        for number in subject.result.lines[:_SHOWN]
        if 0 < number <= len(lines)
    )


def _span_lines(file: str, data: bytes, span: Span) -> tuple[Line, ...]:
    first, last = line_of(data, span[0]), line_of(data, max(span[0], span[1] - 1))
    lines = data.splitlines()
    return tuple(
        Line(file, number, lines[number - 1].decode("utf-8", "replace"))
        for number in range(first, min(last, first + _SHOWN - 1, len(lines)) + 1)
    )


def _quoted(text: str) -> str:
    """A text on one line, in marks."""
    return repr(text)

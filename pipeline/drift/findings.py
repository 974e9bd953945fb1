"""The changes of a comparison as findings: by severity, for filters and the exit status.

A change that a stage of the image says it made is a note with that as its reason. Of the others a
downgrade counts most, and what talks to the GPU more than the rest; against a lock every difference
is an error. docs/drift.md has the table; whether the image holds what its lock says is for `audit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pipeline.audit.catalogue import SEVERITIES
from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.drift.changes import (
    ADDED,
    BUILD,
    DISTRIBUTION,
    DOWN,
    FILES,
    LIBRARY,
    MOVED,
    NEW,
    ORIGIN,
    REMOVED,
    RENAMED,
    UP,
    Change,
    Setting,
)
from pipeline.drift.comparison import Comparison
from pipeline.drift.images import LOCK

_RULES = {
    UP: "drift-up",
    DOWN: "drift-down",
    MOVED: "drift-moved",
    BUILD: "drift-build",
    ADDED: "drift-added",
    REMOVED: "drift-removed",
    RENAMED: "drift-renamed",
    FILES: "drift-files",
    ORIGIN: "drift-origin",
}
_FIX = "look at what the layer did; `audit` says whether the image holds what its lock says"


def findings(comparison: Comparison, others: Iterable[Finding] = ()) -> Comparison:
    """Return the comparison with its findings, and with `others`, sorted as reports show them."""
    found = sorted((*_findings(comparison), *others), key=Finding.sort_key)
    return replace(comparison, findings=tuple(found))


def _findings(comparison: Comparison) -> Iterator[Finding]:
    kinds = [comparison.before.kind, comparison.after.kind]
    for change in comparison.changes:
        yield _moved(change, against_lock=kinds.count(LOCK) == 1)
        yield from _unmet(change)
    if comparison.base_changed:
        yield _finding("drift-base", comparison.after.subject, "it stands on another base")
    for setting in comparison.settings:
        if setting.name != "Labels":
            yield _finding(
                "drift-setting", _name(setting), _setting(setting), reason=setting.reason
            )
    if comparison.files:
        count = len(comparison.files)
        text = "a file" if count == 1 else f"{count:,} files"
        first = comparison.files[0]
        yield _finding(
            "drift-lone-files",
            comparison.after.subject,
            f"{text} of no package differ",
            path=first.path,
            layer=first.layer.digest if first.layer else "",
        )


def _moved(change: Change, *, against_lock: bool) -> Finding:
    wishes = "".join(f"; {wish}" for wish in change.wishes)
    # That a stage did it is no reason where it is held against the lock of another one.
    reason = "" if against_lock and change.kind == DISTRIBUTION else change.reason
    return _finding(
        "drift-library" if change.kind == LIBRARY else _RULES[change.direction],
        change.name,
        describe(change) + wishes,
        path=next(iter((*change.files.changed, *change.files.added, *change.files.removed)), ""),
        layer=change.layer.digest if change.layer else "",
        reason=reason,
        fix="" if reason else _FIX,
        severity=_severity(change, against_lock),
    )


def _severity(change: Change, against_lock: bool) -> str:
    """Return the severity of a change that nothing explains."""
    usual = SEVERITIES[_RULES[change.direction]]
    if change.kind == DISTRIBUTION and against_lock:
        return ERROR
    if change.gpu or change.family or change.kind == LIBRARY:
        return usual
    if change.kind == DISTRIBUTION and usual == ERROR:
        return ERROR
    return WARNING if usual == ERROR else NOTE


def describe(change: Change) -> str:
    """Say in one clause how something changed."""
    before, after = change.before, change.after
    if change.kind == LIBRARY:
        return f"the loader takes {after}, and took {before}"
    match change.direction:
        case "added":
            return f"{after} is new"
        case "removed":
            return f"{before} is gone"
        case "renamed":
            return f"{change.was} {before} is now {change.name} {after}"
        case "origin-changed":
            return f"{after} is from {change.origin_after}, and was from {change.origin_before}"
        case "files-changed":
            return f"{_count(change)} inside {after}, whose version is the same"
        case "changed-build" if before == after:
            return f"{after} is another build of that version: {_count(change)}"
        case "changed-build":
            return f"{before} → {after}, another build of one version"
        case "moved" if not after:
            return f"{before}, and now its metadata cannot be read"
        case "moved":
            return f"{before} → {after}, which have no order"
    return f"{before} → {after}"


def _count(change: Change) -> str:
    files = change.files
    parts = [("changed", files.changed), ("added", files.added), ("removed", files.removed)]
    texts = [f"{len(paths):,} {what}" for what, paths in parts if paths]
    return f"{', '.join(texts)} file{'s' if files.count > 1 else ''}"


def _unmet(change: Change) -> Iterator[Finding]:
    for wish in change.wishes:
        if wish.state == NEW:
            found = f"{change.name} {change.after}".strip() if change.after else "none"
            yield _finding(
                "requirement-unsatisfied",
                wish.dependant,
                f"{wish.version} wants {wish.requirement}, found {found}",
                layer=change.layer.digest if change.layer else "",
                fix="move the pin, or enter the override in the ledger with its reason",
            )


def _name(setting: Setting) -> str:
    return f"{setting.name} {setting.key}".strip()


def _setting(setting: Setting) -> str:
    if setting.before is None:
        return f"is now {setting.after}"
    if setting.after is None:
        return f"is no longer set; it was {setting.before}"
    return f"{setting.before} → {setting.after}"


def _finding(
    rule: str,
    subject: str,
    message: str,
    *,
    path: str = "",
    layer: str = "",
    reason: str = "",
    fix: str = "",
    severity: str = "",
) -> Finding:
    severity = NOTE if reason else severity or SEVERITIES[rule]
    return Finding(rule, severity, subject, message, path, layer, fix, reason)

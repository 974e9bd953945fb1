"""What a comparison's changes are as findings: which of them count, and how much.

A change that something intends (`reason`: a pin of the lock, a patch) is a note. A downgrade, and
whatever else nobody meant, counts by what it can hurt. docs/drift.md has the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.audit.findings import ERROR, NOTE, WARNING, Finding
from pipeline.drift.model import (
    ADDED,
    BUILD,
    DEBIAN,
    DISTRIBUTION,
    DOWN,
    FILES,
    LIBRARY,
    LOCK,
    MOVED,
    NEW,
    ORIGIN,
    REMOVED,
    RENAMED,
    UP,
    Change,
    Comparison,
    History,
    LoneFile,
    Setting,
)

# The severity of each rule where nothing intends the change; what talks to the GPU or belongs to a
# family counts as `GPU` says, Debian packages and plain libraries never more than a warning.
SEVERITIES: Mapping[str, str] = {
    "drift-down": WARNING,
    "drift-up": NOTE,
    "drift-moved": WARNING,
    "drift-build": WARNING,
    "drift-added": NOTE,
    "drift-removed": WARNING,
    "drift-renamed": NOTE,
    "drift-origin": ERROR,
    "drift-content": WARNING,
    "drift-library": NOTE,
    "drift-requirement": ERROR,
    "drift-base": WARNING,
    "drift-config": NOTE,
    "drift-file": NOTE,
}
GPU: Mapping[str, str] = {
    "drift-down": ERROR,
    "drift-up": WARNING,
    "drift-moved": ERROR,
    "drift-library": WARNING,
}
_RULES = {
    DOWN: "drift-down",
    UP: "drift-up",
    MOVED: "drift-moved",
    BUILD: "drift-build",
    ADDED: "drift-added",
    REMOVED: "drift-removed",
    RENAMED: "drift-renamed",
    ORIGIN: "drift-origin",
    FILES: "drift-content",
}
_MILD = {ERROR: WARNING}  # of what is no distribution
_STARTS = ("Entrypoint", "Cmd", "User", "WorkingDir")
# Variables that decide what is loaded, found or run.
_LOADS = (
    "PATH",
    "LD_",
    "PYTHON",
    "CUDA",
    "NCCL",
    "NVIDIA",
    "VLLM",
    "TORCH",
    "TRITON",
    "FLASHINFER",
)
_NAMED = 3  # of files without an owner


def comparison_findings(found: Comparison) -> tuple[Finding, ...]:
    """Return the findings of a comparison in order; its own member is not looked at."""
    findings = [
        *(one for change in found.changes for one in _of_change(change, found.before.kind)),
        *(_of_setting(setting) for setting in found.settings),
        *_of_files(found.files),
        *_of_base(found),
    ]
    return tuple(sorted(findings, key=Finding.sort_key))


def history_findings(history: History) -> tuple[Finding, ...]:
    """Return the findings of all columns in order, each with the column's name in its message."""
    findings = [
        replace(finding, message=f"{column.name}: {finding.message}")
        for column in history.columns
        if column.comparison is not None
        for finding in comparison_findings(column.comparison)
    ]
    return tuple(sorted(findings, key=Finding.sort_key))


def _of_change(change: Change, before: str) -> Iterator[Finding]:
    rule = "drift-library" if change.kind == LIBRARY else _RULES[change.direction]
    severity = SEVERITIES[rule]
    if change.gpu or change.family:
        severity = GPU.get(rule, severity)
    if change.kind == DEBIAN:
        severity = _MILD.get(severity, severity)
    if before == LOCK and change.kind == DISTRIBUTION:
        severity = ERROR  # what is not as it is locked is never harmless
    yield Finding(
        rule,
        NOTE if change.reason else severity,
        change.name,
        _message(change),
        layer=change.layer.digest if change.layer else "",
        reason=change.reason,
    )
    for wish in change.wishes:
        if wish.state == NEW:
            yield Finding(
                "drift-requirement",
                SEVERITIES["drift-requirement"],
                wish.dependant,
                f"{wish.version} wants {wish.requirement}, {change.after or 'none'} is there now",
                layer=change.layer.digest if change.layer else "",
                fix="move the pin, or enter the override with its reason in the lock's ledger",
            )


def _message(change: Change) -> str:
    if change.direction == FILES:
        return f"{change.after}: {change.files.count:,} files differ, the version does not"
    if change.direction == ORIGIN:
        return (
            f"{change.after} is from {change.origin_after or 'an index'}, "
            f"was from {change.origin_before or 'an index'}"
        )
    text = f"{change.before or 'absent'} → {change.after or 'absent'}"
    if change.was:
        text = f"was {change.was}: {text}"
    against = [str(wish) for wish in change.wishes if wish.state == NEW]
    return text + "".join(f"; {one}" for one in against)


def _of_setting(setting: Setting) -> Finding:
    severity = SEVERITIES["drift-config"]
    if setting.name == "architecture":
        severity = ERROR
    elif setting.name in _STARTS or (setting.name == "Env" and setting.key.startswith(_LOADS)):
        severity = WARNING
    before, after = (
        "unset" if value is None else value for value in (setting.before, setting.after)
    )
    return Finding(
        "drift-config",
        severity,
        f"{setting.name} {setting.key}".rstrip(),
        f"{before} → {after}",
    )


def _of_files(files: Sequence[LoneFile]) -> Iterator[Finding]:
    if files:
        named = ", ".join(file.path for file in files[:_NAMED])
        more = f" and {len(files) - _NAMED:,} more" if len(files) > _NAMED else ""
        yield Finding(
            "drift-file",
            SEVERITIES["drift-file"],
            "files",
            f"{len(files):,} that no package owns differ: {named}{more}",
        )


def _of_base(found: Comparison) -> Iterator[Finding]:
    if found.base_changed:
        names = [
            " ".join(filter(None, (image.base_name, image.base_digest))) or "another one"
            for image in (found.before, found.after)
        ]
        yield Finding("drift-base", SEVERITIES["drift-base"], "base", " → ".join(names))

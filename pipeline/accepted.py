"""The baseline file: findings that are accepted, each with a reason and a last day.

A file of `[[accepted]]` tables (docs/findings.md, "Accepted findings"). Reading is strict, and all
faults are reported at once. Texts out of images stand in it as `report.plain.printable` shows them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path

from pipeline.audit.findings import NOTE, WARNING, Finding
from pipeline.errors import Fault, FaultyFile, UsageError
from pipeline.lock.table import Table, read_toml
from pipeline.report.plain import printable

UNUSED = "baseline-unused"
EXPIRED = " (accepted until "  # in the message of a finding that counts again


@dataclass(frozen=True)
class Accepted:
    """One accepted finding: every member that is not "" must be the finding's.

    `version` is that of the subject in the image. It is accepted up to and on the day `until`.
    """

    rule: str
    subject: str
    reason: str
    until: date
    path: str = ""
    version: str = ""
    message: str = ""

    def matches(self, finding: Finding, versions: Mapping[str, Sequence[str]]) -> bool:
        """Whether this is the finding that is meant; `versions` are the image's, by subject."""
        return (
            self.rule == finding.rule
            and self.subject == printable(finding.subject)
            and self.path in ("", printable(finding.path))
            and self.message in ("", printable(finding.message))
            and (not self.version or self.version in versions.get(finding.subject, ()))
        )


@dataclass(frozen=True)
class Baseline:
    """All entries of a baseline file, in its order."""

    file: str
    entries: tuple[Accepted, ...]

    def apply(
        self, findings: Iterable[Finding], versions: Mapping[str, Sequence[str]], today: date
    ) -> tuple[Finding, ...]:
        """Return the findings, accepted ones as notes with the reason, in order.

        One whose day has passed counts as before and says so. An entry that matches nothing, or
        only what is tolerated already, is a finding itself.
        """
        used: set[int] = set()
        result = [self._judged(finding, versions, today, used) for finding in findings]
        for number, entry in enumerate(self.entries):
            if number not in used:
                result.append(self._unused(number, entry))
        return tuple(sorted(result, key=Finding.sort_key))

    def _judged(
        self,
        finding: Finding,
        versions: Mapping[str, Sequence[str]],
        today: date,
        used: set[int],
    ) -> Finding:
        if finding.reason:
            return finding
        meant = [n for n, entry in enumerate(self.entries) if entry.matches(finding, versions)]
        used.update(meant)
        if not meant:
            return finding
        entry = max((self.entries[number] for number in meant), key=lambda one: one.until)
        if entry.until < today:
            return replace(
                finding,
                message=f"{finding.message}{EXPIRED}{entry.until}: {entry.reason})",
                fix=f"mend it, or accept it anew in {self.file}",
            )
        return replace(
            finding, severity=NOTE, fix="", reason=f"accepted until {entry.until}: {entry.reason}"
        )

    def _unused(self, number: int, entry: Accepted) -> Finding:
        details = (entry.path, entry.version, entry.message)
        place = "".join(f", {detail}" for detail in details if detail)
        return Finding(
            UNUSED,
            WARNING,
            entry.subject,
            f"accepted[{number}] accepts {entry.rule}{place}, and there is no such finding",
            path=self.file,
            fix=f"remove the entry from {self.file}",
        )


def read_baseline(path: Path) -> Baseline:
    """Read a baseline file.

    Raises UsageError without such a file, FaultyFile with every fault of it, OutsideTrouble.
    """
    document = read_toml(path, missing="`--write-baseline FILE` proposes one")
    faults: list[Fault] = []
    root = Table(document, "", faults)
    entries = []
    for table in root.tables("accepted"):
        entries.append(
            Accepted(
                table.text("rule", pattern=r"[a-z][a-z0-9-]+", like="a rule id"),
                table.text("subject"),
                table.text("reason"),
                _day(table),
                table.text("path", required=False),
                table.text("version", required=False),
                table.text("message", required=False),
            )
        )
        table.close()
    root.close()
    for number, entry in enumerate(entries):
        if not faults and entry in entries[:number]:
            root.fault(f"accepted[{number}]", "stands twice")
    if faults:
        raise FaultyFile(str(path), faults, hint="give each entry a reason and a last day")
    return Baseline(str(path), tuple(entries))


def _day(table: Table) -> date:
    table.judged_elsewhere("until")
    value = table.values.get("until")
    if isinstance(value, str) and not value.strip():
        table.fault("until", "empty")
    elif isinstance(value, date) and not isinstance(value, datetime):
        return value
    elif value is None:
        table.fault("until", "missing")
    else:
        table.fault("until", f"a day such as 2027-03-01 is needed, without quotes, this is {value}")
    return date.min


def propose(
    findings: Iterable[Finding], versions: Mapping[str, Sequence[str]], known: Baseline | None
) -> str:
    """Return a baseline file that accepts findings, for people to complete.

    `findings` are as an audit gives them, before a baseline is applied; what is tolerated already
    needs no entry. Entries of `known` that still match are kept; the others have no reason and no
    day yet, and the file is refused until they do.
    """
    import tomlkit  # a proposal is rare, and the import is not free

    def table(entry: Accepted, finding: Finding) -> tomlkit.items.Table:
        made = tomlkit.table()
        made.add(tomlkit.comment(f"{finding.severity}: {printable(finding.message)}"))
        for key in ("rule", "subject", "path", "version", "message"):
            if value := getattr(entry, key):
                made.add(key, value)
        made.add("reason", entry.reason)
        made.add("until", "" if entry.until == date.min else entry.until)
        return made

    document = tomlkit.document()
    document.add(tomlkit.comment("Findings that are accepted: give each a reason and a last day."))
    listed = tomlkit.aot()
    kept: set[int] = set()
    for finding in findings:
        if finding.reason:
            continue
        entries = known.entries if known else ()
        meant = [n for n, entry in enumerate(entries) if entry.matches(finding, versions)]
        for number in sorted(set(meant) - kept):
            listed.append(table(entries[number], finding))
        kept.update(meant)
        if not meant:
            listed.append(table(_entry(finding, versions), finding))
    document.add("accepted", listed)
    return tomlkit.dumps(document)


def _entry(finding: Finding, versions: Mapping[str, Sequence[str]]) -> Accepted:
    there = versions.get(finding.subject, ())
    return Accepted(
        finding.rule,
        printable(finding.subject),
        "",
        date.min,
        path=printable(finding.path),
        version=printable(there[0]) if len(there) == 1 else "",
        # What has no place is told apart by its words alone.
        message="" if finding.path else printable(finding.message),
    )


def the_day(text: str) -> date:
    """Return the day that is today: `text` if it is one, or SOURCE_DATE_EPOCH's, or the clock's.

    The only place where the program reads what day it is. Raises UsageError.
    """
    if text:
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise UsageError(f"--today {text!r} is no day such as 2027-03-01") from None
    moment = os.environ.get("SOURCE_DATE_EPOCH") or str(int(time.time()))
    try:
        return datetime.fromtimestamp(int(moment), UTC).date()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"SOURCE_DATE_EPOCH={moment!r} is no number of seconds", hint="unset it, or mend it"
        ) from None

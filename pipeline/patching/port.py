"""Writes what a survey proposes as a new variant of a patch, at the end of the patch's file.

Everything that stands in the file stays byte for byte, comments included. The new text is read
back and tried on the release before anything is written; what does not fit is not written.
"""

from __future__ import annotations

import os
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from pipeline.errors import FaultyFile, OutsideTrouble
from pipeline.patching.evaluate import evaluate
from pipeline.patching.loading import load_patch
from pipeline.patching.model import Patch, UpstreamTest
from pipeline.patching.places import scope_span
from pipeline.patching.sources import Source
from pipeline.patching.verdicts import EditReport, PatchReport, State
from pipeline.patching.writing import variant_text


@dataclass(frozen=True)
class Ported:
    """What came of one patch.

    `text` is what its file gets at its end, empty when nothing is to be written; `problem` says
    why a patch that needs a variant gets none. `read` are the proposals that a person must read:
    an edit's id and the reason.
    """

    report: PatchReport
    text: str = ""
    problem: str = ""
    read: tuple[tuple[str, str], ...] = ()


def port(report: PatchReport, source: Source, path: Path) -> Ported:
    """The new variant for `source` of the patch in the file `path`. Writes nothing.

    A patch that fits, or that the release has, needs none: `text` and `problem` are empty then.
    """
    version = source.versions.get(report.patch.distribution)
    if report.variant is None or version is None:
        return Ported(report, problem=report.message)
    if report.state not in (State.NEEDS_VARIANT, State.DOES_NOT_FIT):
        return Ported(report)
    if report.own:
        return Ported(report, problem=f"{report.variant.label} is for it already, and does not fit")
    if not report.edits:
        return Ported(report, problem=report.message)
    by_hand = [edit.edit.id for edit in report.edits if edit.proposal is None]
    if by_hand:
        return Ported(report, problem=f"no proposal for {', '.join(by_hand)}")
    edits = tuple(edit.proposal.edit for edit in report.edits if edit.proposal)
    requirement = _requirement(report.variant.requirement, version)
    read = tuple(
        (edit.edit.id, why) for edit in report.edits if edit.proposal for why in edit.proposal.read
    )
    read += _lost_tests(report.upstream, source)
    variant = replace(
        report.variant,
        requirement=requirement,
        edits=edits,
        upstream=report.upstream,
        unverified="",  # it is tried below
    )
    payloads = {
        (path.parent / name).read_bytes().decode("utf-8"): name for name in report.patch.payloads
    }
    text = "\n" + variant_text(variant, _comments(report, version, read), payloads)
    problem = _try(report.patch, path, text, source)
    return Ported(report, problem=problem) if problem else Ported(report, text, read=read)


def append(path: Path, text: str) -> None:
    """Puts text at the end of a file, all or nothing. Raises OutsideTrouble."""
    try:
        before = path.read_bytes()
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(_joined(before, text))
        Path(name).chmod(path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    except OSError as error:
        raise OutsideTrouble(f"{path} cannot be written: {error.strerror}") from error


def _joined(before: bytes, text: str) -> bytes:
    """The file with the text behind it, in the file's own line ends."""
    end = b"\r\n" if b"\r\n" in before else b"\n"
    whole = before if before.endswith(b"\n") else before + end
    return whole + text.encode("utf-8").replace(b"\n", end)


def _requirement(old: Requirement, version: Version) -> Requirement:
    """A `for` line for this release, as wide as the old one: `==0.30.*` gives `==0.33.*`."""
    specifiers = list(old.specifier)
    if len(specifiers) == 1 and specifiers[0].version.endswith(".*"):
        parts = specifiers[0].version.removesuffix(".*").count(".") + 1
        release = (*version.release, *[0] * parts)[:parts]
        if not version.epoch:
            return Requirement(f"{old.name}=={'.'.join(map(str, release))}.*")
    return Requirement(f"{old.name}=={version}")


def _lost_tests(tests: Sequence[UpstreamTest], source: Source) -> tuple[tuple[str, str], ...]:
    """Upstream tests that can never hold in this release, as their place is not there."""
    lost = []
    for test in tests:
        data = source.read(test.file)
        if data is None or scope_span(test.file, data, test.within) is None:
            place = f"{test.within} of {test.file}" if test.within else test.file
            lost.append(("upstream", f"{place} is not there, so this test cannot hold any more"))
    return tuple(lost)


def _comments(report: PatchReport, version: Version, read: Sequence[tuple[str, str]]) -> list[str]:
    label = report.variant.label if report.variant else ""
    lines = [f"Ported from {label} by `patches port` against {version}."]
    for edit in report.edits:
        lines += [f"{edit.edit.id}: {change}" for change in _changes(edit)]
    for old, new in zip(
        report.variant.upstream if report.variant else (), report.upstream, strict=True
    ):
        if old != new:
            place = f"{new.within} of {new.file}" if new.within else new.file
            lines.append(f"upstream: the test is asked in {place}")
    if read:
        lines.append("A person must read, and then remove this note:")
        lines += [f"- {name}: {why}" for name, why in read]
    return [part for line in lines for part in _folded(line)]


def _folded(line: str) -> list[str]:
    return textwrap.wrap(
        line, 106, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _changes(edit: EditReport) -> Sequence[str]:
    return edit.proposal.changes if edit.proposal else ()


def _try(patch: Patch, path: Path, text: str, source: Source) -> str:
    """Reads the file as it would be and asks the release; why it does not do, or ""."""
    with tempfile.TemporaryDirectory(prefix="sm121-port-") as directory:
        trial = Path(directory, path.name)
        trial.write_bytes(_joined(path.read_bytes(), text))
        for payload in patch.payloads:
            copy = Path(directory, payload)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((path.parent / payload).read_bytes())
        try:
            read = load_patch(trial)
        except FaultyFile as error:
            return f"the new variant is no valid TOML here: {'; '.join(error.details)}"
    (result,) = evaluate([read], source.read, source.versions, source.python).patches
    failed = [
        f"{edit.edit}: {edit.outcome}: {edit.message}"
        for edit in result.edits
        if edit.outcome.is_failure
    ]
    if failed:
        return f"what is proposed does not fit: {'; '.join(failed)}"
    return f"{result.outcome}: {result.message}" if result.outcome.is_failure else ""

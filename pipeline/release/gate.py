"""The gate: may a tag name this image, by what smoke reports show? Pure; every no has its reason.

Nothing that a report concludes is believed: not its verdict, not a probe's "passed" against its own
numbers, not a threshold that is wider than the gate's own. What is unknown equals nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.errors import FaultyFile
from pipeline.release.limits import LIMITS, Limits
from pipeline.release.probes import judge_probes
from pipeline.release.refusals import Reason, Refused
from pipeline.release.report import Rank, SmokeReport, read_report

__all__ = ["Reason", "Refused", "Wanted", "judge", "judge_documents"]

CAPABILITY = (12, 1)
# How far the clock of a rank may be from the clock of whoever made the report, in seconds.
CLOCKS_APART = 120


@dataclass(frozen=True)
class Wanted:
    """What must have been proven: an image, and the probes that its stage requires.

    `created` is when the image says it was made, in unix seconds; None where it does not say.
    """

    manifest: str
    fingerprint: str
    created: float | None
    probes: Sequence[str]
    capability: tuple[int, int] = CAPABILITY


def judge_documents(
    documents: Mapping[str, bytes], wanted: Wanted, now: float, limits: Limits = LIMITS
) -> list[Refused]:
    """Judge reports as they were read from files, by name. Any fault of any one refuses."""
    reports: list[SmokeReport] = []
    unreadable: list[Refused] = []
    for name, data in documents.items():
        try:
            reports.append(read_report(data, name))
        except FaultyFile as error:
            unreadable += [
                Refused(Reason.UNREADABLE, f"{name}: {fault.where}".rstrip(": "), fault.problem)
                for fault in error.faults
            ]
    return unreadable or judge(reports, wanted, now, limits)


def judge(
    reports: Sequence[SmokeReport], wanted: Wanted, now: float, limits: Limits = LIMITS
) -> list[Refused]:
    """Return why these reports, all of them together, do not prove the image; [] if they do."""
    found: list[Refused] = []
    if not reports:
        found.append(Refused(Reason.NO_REPORT, "", "there is no smoke report"))
    if not wanted.probes:
        found.append(Refused(Reason.NOTHING_REQUIRED, "", "the stage requires no probe"))
    for report in reports:
        found += _identity(report, wanted)
        found += _times(report, wanted, now)
        if not report.ranks:
            found.append(Refused(Reason.NO_RANK, "", "the report is of no rank"))
    ranks = [rank for report in reports for rank in report.ranks]
    for rank in ranks:
        found += judge_rank(rank, wanted, limits)
        found += _image(rank, wanted)
    for report in reports[1:]:
        if report.probes != reports[0].probes:
            problem = f"the files of its probes are {report.probes}, not {reports[0].probes}"
            found.append(Refused(Reason.RANKS_DIFFER, report.subject, problem))
    return [*found, *_together(ranks)]


def judge_rank(rank: Rank, wanted: Wanted, limits: Limits = LIMITS) -> Iterator[Refused]:
    """Yield why a rank's run is no pass, whatever image it was."""
    where = f"rank {rank.number} ({rank.host})"
    if rank.problem:
        yield Refused(Reason.RANK_FAILED, where, rank.problem)
    if rank.run is None:
        if not rank.problem:
            yield Refused(Reason.RANK_FAILED, where, "there is no result")
        return
    run = rank.run
    if rank.exit_status != 0:
        said = "unknown" if rank.exit_status is None else str(rank.exit_status)
        yield Refused(Reason.RANK_FAILED, where, f"exit status {said}")
    for problem in run.problems:
        yield Refused(Reason.RANK_FAILED, where, problem)
    if run.capability is None or not run.gpu:
        yield Refused(Reason.NO_GPU, where, "no GPU was seen")
    elif run.capability != wanted.capability:
        asked, shown = (".".join(map(str, one)) for one in (wanted.capability, run.capability))
        yield Refused(Reason.OTHER_GPU, where, f"{run.gpu} has capability {shown}, not {asked}")
    yield from judge_probes(run, wanted.probes, wanted.capability, limits, where)


def _identity(report: SmokeReport, wanted: Wanted) -> Iterator[Refused]:
    if not report.manifest or not report.fingerprint:
        yield Refused(Reason.NO_IMAGE, report.subject, "the report names no digest of an image")
        return
    for kind in ("manifest", "fingerprint"):
        there, here = getattr(report, kind), getattr(wanted, kind)
        if not here or there != here:
            problem = f"the report is about {kind} {there}, not {here or 'unknown'}"
            yield Refused(Reason.OTHER_IMAGE, report.subject, problem)


def _image(rank: Rank, wanted: Wanted) -> Iterator[Refused]:
    where = f"rank {rank.number} ({rank.host})"
    if not rank.runtime:
        yield Refused(Reason.NO_IMAGE, where, "no container ran")
    shown = rank.image.fingerprint
    if not shown or shown != wanted.fingerprint:
        problem = f"its runtime showed fingerprint {shown or 'unknown'}, not {wanted.fingerprint}"
        yield Refused(Reason.RANKS_DIFFER, where, problem)


def _times(report: SmokeReport, wanted: Wanted, now: float) -> Iterator[Refused]:
    if wanted.created is None:
        problem = "the image does not say when it was created"
        yield Refused(Reason.OLDER_THAN_IMAGE, report.subject, problem)
    spans = [("the report", report.started, report.finished)]
    for rank in report.ranks:
        name = f"rank {rank.number} ({rank.host})"
        spans.append((name, rank.started, rank.finished))
        if rank.started < report.started or rank.finished > report.finished:
            yield Refused(Reason.TIMES, name, "it ran outside of the time of its report")
        if rank.run is None:
            continue
        if rank.run.finished < rank.run.started:
            yield Refused(Reason.TIMES, name, "its probes finished before they started")
        early = rank.run.started < rank.started - CLOCKS_APART
        if early or rank.run.finished > rank.finished + CLOCKS_APART:
            problem = "its probes ran at another time than it, or its clock is wrong"
            yield Refused(Reason.TIMES, name, problem)
    for name, started, finished in spans:
        if finished < started:
            yield Refused(Reason.TIMES, name, "it finished before it started")
        if wanted.created is not None and min(started, finished) < wanted.created:
            yield Refused(Reason.OLDER_THAN_IMAGE, name, "it is older than the image")
        if max(started, finished) > now:
            yield Refused(Reason.FROM_THE_FUTURE, name, "it is from the future")


def _together(ranks: Sequence[Rank]) -> Iterator[Refused]:
    seen: dict[int | str, Rank] = {}
    for rank in ranks:
        first = seen.get(rank.number) or seen.get(rank.host)
        if first:
            problem = f"rank {first.number} ({first.host}) and rank {rank.number} ({rank.host})"
            yield Refused(Reason.RANK_TWICE, "", f"{problem} are one")
        seen[rank.number] = seen[rank.host] = rank
    yield from _machines(ranks)
    with_run = [rank for rank in ranks if rank.run is not None]
    for rank in with_run[1:]:
        first = with_run[0]
        assert first.run is not None and rank.run is not None
        if first.run.capability != rank.run.capability:
            yield _differ(rank, first, "capability")
        for key, value in first.run.same.items():
            if rank.run.same.get(key) != value:
                yield _differ(rank, first, key)


def _machines(ranks: Sequence[Rank]) -> Iterator[Refused]:
    """Yield which ranks are, or may be, one machine under two names."""
    seen: dict[str, Rank] = {}
    for rank in ranks:
        if rank.run is None or len(ranks) == 1:
            continue
        where = f"rank {rank.number} ({rank.host})"
        if not rank.run.machine:
            problem = "neither its boot nor a GPU has an id: it may be another rank's machine"
            yield Refused(Reason.RANK_TWICE, where, problem)
        first = next((seen[one] for one in sorted(rank.run.machine) if one in seen), None)
        if first:
            problem = f"is the machine of rank {first.number} ({first.host}), by boot or GPU"
            yield Refused(Reason.RANK_TWICE, where, problem)
        seen.update(dict.fromkeys(rank.run.machine, rank))


def _differ(rank: Rank, first: Rank, key: str) -> Refused:
    where = f"rank {rank.number} ({rank.host})"
    return Refused(Reason.RANKS_DIFFER, where, f"{key} is another than on rank {first.number}")

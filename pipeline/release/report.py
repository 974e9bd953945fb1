"""The smoke report: what ran where, on which image, with which numbers. Values and JSON.

The form is published as docs/schemas/smoke-report.json. The reader is strict: every fault of a
document is reported at once, each with its place. What a report concludes is kept for people; the
gate never reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.lock.table import Table
from pipeline.release.document import read_document
from pipeline.release.run import DIGEST, Run, optional, read_run

SCHEMA = "sm121-chain/smoke-report/1"
ASKED_CAPABILITY = r"[1-9][0-9]?\.[0-9]"
PASSED, FAILED = "passed", "failed"


@dataclass(frozen=True)
class RankImage:
    """The image as the runtime of a rank showed it; "" for what it did not show."""

    name: str = ""
    config: str = ""
    manifest: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Rank:
    """What one host did. Times are unix seconds by the clock of whoever made the report.

    `problem` is why there is no good result, "" otherwise; `run` is what the probes' driver said,
    None when that was nothing that can be read. `runtime` is "" where no container ran.
    """

    number: int
    host: str
    runtime: str
    image: RankImage
    started: int
    finished: int
    exit_status: int | None = None
    problem: str = ""
    run: Run | None = None


@dataclass(frozen=True)
class SmokeReport:
    """One smoke run on one or several ranks.

    `manifest` and `fingerprint` are the subject's, "" where it is no image. `capability` and
    `required` are what was asked for, `probes` the digest of the probes' files.
    """

    subject: str
    manifest: str
    fingerprint: str
    capability: str
    required: Sequence[str]
    probes: str
    started: int
    finished: int
    ranks: Sequence[Rank] = field(default_factory=tuple)

    def to_json(self, *, passed: bool) -> dict[str, Any]:
        """Return the report as one JSON object, with a verdict for people."""
        return {
            "schema": SCHEMA,
            "subject": {
                "name": self.subject,
                "manifest": self.manifest or None,
                "fingerprint": self.fingerprint or None,
            },
            "capability": self.capability,
            "required": list(self.required),
            "probes": self.probes,
            "started": self.started,
            "finished": self.finished,
            "ranks": [_rank_json(rank) for rank in self.ranks],
            "verdict": PASSED if passed else FAILED,
        }


def _rank_json(rank: Rank) -> dict[str, Any]:
    image = rank.image
    return {
        "rank": rank.number,
        "host": rank.host,
        "runtime": rank.runtime or None,
        "image": {
            "name": image.name or None,
            "config": image.config or None,
            "manifest": image.manifest or None,
            "fingerprint": image.fingerprint or None,
        },
        "started": rank.started,
        "finished": rank.finished,
        "exit_status": rank.exit_status,
        "problem": rank.problem,
        "run": dict(rank.run.document) if rank.run else None,
    }


def read_report(data: bytes, name: str) -> SmokeReport:
    """Read a report. Raises FaultyFile with every fault."""
    return read_document(data, name, _report, hint="make the report again: smoke")


def _report(table: Table) -> SmokeReport:
    schema = table.text("schema")
    if schema and schema != SCHEMA:
        table.fault("schema", f"{schema!r} is not {SCHEMA!r}")
    verdict = table.text("verdict")
    if verdict and verdict not in (PASSED, FAILED):
        table.fault("verdict", f"{verdict!r} is neither {PASSED!r} nor {FAILED!r}")
    subject = table.table("subject")
    report = SmokeReport(
        subject=subject.text("name"),
        manifest=optional(subject, "manifest", pattern=DIGEST, like="a digest"),
        fingerprint=optional(subject, "fingerprint", pattern=DIGEST, like="a digest"),
        capability=table.text("capability", pattern=ASKED_CAPABILITY, like="a capability, as 12.1"),
        required=table.texts("required"),
        probes=table.text("probes", pattern=DIGEST, like="a digest"),
        started=table.integer("started") or 0,
        finished=table.integer("finished") or 0,
        ranks=[_rank(rank) for rank in table.tables("ranks", required=True)],
    )
    subject.close()
    table.close()
    return report


def _rank(table: Table) -> Rank:
    image = table.table("image")
    shown = RankImage(
        name=optional(image, "name"),
        config=optional(image, "config", pattern=DIGEST, like="a digest"),
        manifest=optional(image, "manifest", pattern=DIGEST, like="a digest"),
        fingerprint=optional(image, "fingerprint", pattern=DIGEST, like="a digest"),
    )
    image.close()
    ran = table.values.get("run") is not None
    rank = Rank(
        number=table.integer("rank") or 0,
        host=table.text("host"),
        runtime=optional(table, "runtime"),
        image=shown,
        started=table.integer("started") or 0,
        finished=table.integer("finished") or 0,
        exit_status=table.integer("exit_status", required=False, least=-255, most=255),
        problem=optional(table, "problem", may_be_empty=True),
        run=read_run(table.table("run")) if ran else None,
    )
    table.judged_elsewhere("run")
    table.close()
    return rank

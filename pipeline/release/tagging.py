"""From evidence to tags: the gate, the record, the tags, the record again. Nothing is in between.

The record is on disk before a tag is written, and says so once every tag was read back. Whatever
stops this, the next run comes to the same end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pipeline.errors import Refusal
from pipeline.oci.references import Reference
from pipeline.oci.registry.client import Repository
from pipeline.release.candidate import Candidate
from pipeline.release.gate import Refused, Wanted, judge_documents
from pipeline.release.record import Drift, Evidence, make_record, write_record
from pipeline.release.tags import (
    TagNames,
    check_published,
    check_tags,
    proven_names,
    short,
    unproven_names,
    write_tags,
)

STATE = Path("releases")


def folder_of(state: Path, candidate: Candidate, *, unproven: bool = False) -> Path:
    """Return where what belongs to the release of one image lies."""
    name = short(candidate.image.digest)
    return state / candidate.planned.tag / (f"unproven-{name}" if unproven else name)


def names_of(candidate: Candidate, evidence: Evidence) -> TagNames:
    """Return the tags that the evidence may give."""
    make = unproven_names if evidence.without_smoke else proven_names
    return make(candidate.planned.tag, candidate.image.digest)


def pass_gate(evidence: Evidence, wanted: Wanted) -> None:
    """Raise Refusal, with every reason, unless the evidence proves the image.

    A reason to do without a smoke run proves nothing: it is let through to the unproven tag alone.
    """
    if evidence.without_smoke:
        return
    refused = judge_documents(evidence.documents, wanted, time.time())
    if refused:
        raise refusal(refused)


def refusal(refused: list[Refused]) -> Refusal:
    """Return the gate's no as an error."""
    count = len(refused)
    return Refusal(
        f"the smoke run does not prove the image: {count} reason{'s' if count > 1 else ''}",
        details=[str(one) for one in refused],
        hint="no tag was written; docs/release.md says what each reason means",
    )


def tag_candidate(
    candidate: Candidate,
    repository: Repository,
    evidence: Evidence,
    folder: Path,
    *,
    move_from: str = "",
    previous: str = "",
    drift: Drift | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> list[Reference]:
    """Pass the gate, then write the tags; return all of them, as references.

    Raises Refusal with every reason when the gate refuses, or when a tag has another meaning
    already; OutsideTrouble.
    """
    pass_gate(evidence, candidate.wanted)
    names = names_of(candidate, evidence)
    check_published(repository, candidate.image)
    check_tags(repository, names, candidate.image.digest, move_from)
    place = repository.reference

    def record(*, tagged: bool) -> None:
        document = make_record(
            candidate, place, names, evidence, previous=previous, drift=drift, tagged=tagged
        )
        write_record(document, folder)

    record(tagged=False)
    write_tags(repository, candidate.image, names, move_from, tell)
    record(tagged=True)
    return [place.at(tag=name) for name in names.all]

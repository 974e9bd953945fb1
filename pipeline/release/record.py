"""The record of a release: what was released, made of what, proven how, and how to pull it.

JSON for programs (docs/schemas/release-record.json), and Markdown of the same for people. Neither
is part of the image: a record may say why there was no smoke run without moving a digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.lock.table import replace_file
from pipeline.oci.references import Reference
from pipeline.release.candidate import Candidate
from pipeline.release.report import SmokeReport, read_report
from pipeline.release.tags import TagNames
from pipeline.report.json import render

SCHEMA = "sm121-chain/release-record/1"


@dataclass(frozen=True)
class Evidence:
    """Why a tag may be written: smoke reports by file name, or the reason why there is none."""

    documents: Mapping[str, bytes]
    without_smoke: str = ""


@dataclass(frozen=True)
class Drift:
    """How the image differs from the last release: against which digest, as Markdown."""

    against: str
    markdown: str


def make_record(
    candidate: Candidate,
    repository: Reference,
    names: TagNames,
    evidence: Evidence,
    *,
    previous: str = "",
    drift: Drift | None = None,
    tagged: bool,
) -> dict[str, Any]:
    """Return a record as one JSON object.

    `previous` is the digest that the moving tag had before, "" for none; `tagged` says whether all
    tags were written and read back. The reports must have been judged.
    """
    image, planned = candidate.image, candidate.planned
    return {
        "schema": SCHEMA,
        "stage": planned.name,
        "title": planned.title,
        "line": candidate.line or None,
        "base": candidate.base,
        "repository": repository.name,
        "tags": list(names.all),
        "tagged": tagged,
        "pull": f"docker pull {repository.at(digest=image.digest)}",
        "manifest": image.digest,
        "config": image.config_descriptor.digest,
        "fingerprint": image.fingerprint,
        "inputs": planned.inputs,
        "created": image.document.get("created"),
        "layers": [{"digest": one.digest, "size": one.size} for one in image.layers],
        "previous": previous or None,
        "drift": {"against": drift.against, "markdown": drift.markdown} if drift else None,
        "without_smoke": evidence.without_smoke or None,
        "smoke": [
            _smoke(read_report(data, name), data) for name, data in evidence.documents.items()
        ],
        **candidate.facts,
    }


def _smoke(report: SmokeReport, data: bytes) -> dict[str, Any]:
    return {
        "report": f"sha256:{hashlib.sha256(data).hexdigest()}",
        "probes": report.probes,
        "started": report.started,
        "finished": report.finished,
        "ranks": [
            {
                "rank": rank.number,
                "host": rank.host,
                "runtime": rank.runtime,
                "gpu": rank.run.gpu,
                "capability": ".".join(map(str, rank.run.capability or ())),
                "driver": rank.run.driver,
                "probes": [
                    {
                        "probe": probe.name,
                        "status": probe.status,
                        "seconds": probe.seconds,
                        "numbers": dict(probe.numbers),
                    }
                    for probe in rank.run.probes
                ],
            }
            for rank in report.ranks
            if rank.run is not None
        ],
    }


def write_record(record: Mapping[str, Any], folder: Path) -> None:
    """Write record.json and record.md, each whole or not at all. Raises OSError, OutsideTrouble."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / "record.json", render(dict(record)))
    replace_file(folder / "record.md", markdown(record))


def markdown(record: Mapping[str, Any]) -> str:
    """Return a record for people."""
    size = sum(layer["size"] for layer in record["layers"])
    state = "" if record["tagged"] else " (not tagged)"
    rows = [
        ("manifest", f"`{record['manifest']}`"),
        ("config", f"`{record['config']}`"),
        ("fingerprint", f"`{record['fingerprint']}`"),
        ("inputs", f"`{record['inputs']}`"),
        ("tags", ", ".join(f"`{tag}`" for tag in record["tags"]) + state),
        ("before", f"`{record['previous']}`" if record["previous"] else "none"),
        ("layers", f"{len(record['layers'])}, {size:,} bytes"),
    ]
    parts = [
        f"# {record['tags'][0]}\n",
        f"{record['stage']}: {record['title']}, on base `{record['base']}`.\n",
        f"```console\n$ {record['pull']}\n```\n",
        _table(("", ""), rows),
        "## Smoke\n",
        _smoke_text(record),
        "## Patches\n",
        _table(
            ("stage", "patch", ""),
            [(one["stage"], f"`{one['name']}`", one["title"]) for one in record["patches"]],
        ),
        "## Drift against the last release\n",
        _drift_text(record),
        "## Pins\n",
        _table(
            ("distribution", "version", "sha256 of the wheel"),
            [(one["name"], one["version"], f"`{one['sha256']}`") for one in record["pins"]],
        ),
    ]
    return "\n".join(parts)


def _smoke_text(record: Mapping[str, Any]) -> str:
    if record["without_smoke"]:
        return f"**None was made.** {_cell(record['without_smoke'])}\n"
    parts = []
    for report in record["smoke"]:
        for rank in report["ranks"]:
            where = f"Rank {rank['rank']}, {rank['host']} ({rank['runtime']})"
            what = f"{rank['gpu']}, capability {rank['capability']}, driver {rank['driver']}"
            parts.append(f"{_cell(where)}: {_cell(what)}.\n")
            rows = [
                (
                    f"`{probe['probe']}`",
                    probe["status"],
                    f"{probe['seconds']:.1f}",
                    ", ".join(f"{name} {value:g}" for name, value in probe["numbers"].items()),
                )
                for probe in rank["probes"]
            ]
            parts.append(_table(("probe", "", "seconds", "numbers"), rows))
    return "\n".join(parts)


def _drift_text(record: Mapping[str, Any]) -> str:
    drift = record["drift"]
    if drift is None:
        return "There is no release to compare with.\n"
    return f"Against `{drift['against']}`.\n\n{drift['markdown'].strip()}\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "None.\n"
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    """Return text that others wrote so that it ends neither its cell nor its line, and is text."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    return " ".join(plain.split()).replace("|", "\\|").replace("<", "&lt;")

"""A smoke report that passes the gate, as a JSON document to be spoiled."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from pipeline.release.gate import Reason, Refused, Wanted, judge_documents

FIXTURES = Path(__file__).parents[1] / "fixtures" / "smoke"
MANIFEST, FINGERPRINT, CONFIG = ("sha256:" + letter * 64 for letter in "abc")
NOW = 1790001000
CREATED = 1789990000
PROBES = ("nope_mla", "fa2_rows", "nccl_library")
WANTED = Wanted(MANIFEST, FINGERPRINT, CREATED, PROBES)


def run() -> dict[str, Any]:
    """What the driver says when all passed: its sample."""
    return dict(json.loads((FIXTURES / "passed.json").read_bytes()))


def rank(number: int = 0) -> dict[str, Any]:
    """A rank that passed, on a machine of its own."""
    said = run()
    said["environment"]["boot_id"] = f"00000000-0000-4000-8000-{number:012}"
    said["environment"]["gpus"][0]["uuid"] = f"11111111-0000-4000-8000-{number:012}"
    return {
        "rank": number,
        "host": f"gb10-{number}",
        "runtime": "docker",
        "image": {
            "name": f"registry.example.org/me/chain@{MANIFEST}",
            "config": CONFIG,
            "manifest": MANIFEST,
            "fingerprint": FINGERPRINT,
        },
        "started": 1789999995,
        "finished": 1790000075,
        "exit_status": 0,
        "problem": "",
        "run": said,
    }


def report(ranks: int = 1) -> dict[str, Any]:
    """A report that passes."""
    return {
        "schema": "sm121-chain/smoke-report/1",
        "subject": {
            "name": f"docker://registry.example.org/me/chain@{MANIFEST}",
            "manifest": MANIFEST,
            "fingerprint": FINGERPRINT,
        },
        "capability": "12.1",
        "required": list(PROBES),
        "probes": "sha256:" + "d" * 64,
        "started": 1789999990,
        "finished": 1790000080,
        "ranks": [rank(number) for number in range(ranks)],
        "verdict": "passed",
    }


def spoiled(path: str, value: Any = None, *, ranks: int = 1, drop: bool = False) -> dict[str, Any]:
    """A report with one value set, or dropped: "ranks.0.run.probes.0.status"."""
    document = copy.deepcopy(report(ranks))
    *way, last = path.split(".")
    place: Any = document
    for key in way:
        place = place[int(key)] if isinstance(place, list) else place[key]
    key = int(last) if isinstance(place, list) else last
    if drop:
        del place[key]
    else:
        place[key] = value
    return document


def judged(document: Any, wanted: Wanted = WANTED, now: float = NOW) -> list[Refused]:
    """What the gate says of one document."""
    return judge_documents({"r.json": json.dumps(document).encode()}, wanted, now)


def reasons(document: Any, wanted: Wanted = WANTED, now: float = NOW) -> set[Reason]:
    """The kinds of no."""
    return {one.reason for one in judged(document, wanted, now)}

"""What the driver of the probes says: one document of `smoke/run.py` (smoke/README.md).

Only what the gate judges is read into values; the document itself is kept as it came. Keys beyond
those that the contract names are kept and decide nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.lock.table import Table
from pipeline.release.document import read_document

SCHEMA = "sm121-chain/smoke-run/1"
DIGEST = r"sha256:[0-9a-f]{64}"
_MOST = 10**18
_RULES = ("max", "min", "equals")


@dataclass(frozen=True)
class Probe:
    """One probe's result. `numbers` are finite; `thresholds` by number: rule -> bound.

    `cases` are its single measurements, (name, numbers). `plant` is the fault that was planted, ""
    for none; `stand_ins` is what was not the image's own.
    """

    name: str
    status: str
    reason: str
    numbers: Mapping[str, float]
    thresholds: Mapping[str, Mapping[str, float]]
    cases: Sequence[tuple[str, Mapping[str, float]]]
    seconds: float
    plant: str = ""
    stand_ins: Sequence[str] = ()


@dataclass(frozen=True)
class Run:
    """What the driver said on one machine; times are unix seconds of that machine's clock.

    `capability` is that of the GPU, (12, 1), None without one. `same` is what must be equal on
    every rank that runs one image, `machine` what no two ranks have in common: the ids of the
    machine's boot and of its GPUs.
    """

    started: int
    finished: int
    problems: Sequence[str]
    gpu: str
    capability: tuple[int, int] | None
    driver: str
    same: Mapping[str, Any]
    machine: Collection[str]
    probes: Sequence[Probe]
    document: Mapping[str, Any]


def parse_run(data: bytes) -> Run:
    """Read the output of the driver: one JSON document. Raises FaultyFile with every fault."""
    return read_document(data, "the probes' output", read_run)


def read_run(table: Table) -> Run:
    """Read a document of the driver; faults go to the table's list."""
    schema = table.text("schema")
    if schema and schema != SCHEMA:
        table.fault("schema", f"{schema!r} is not {SCHEMA!r}")
    environment = table.table("environment")
    versions = ("python", "torch", "flashinfer", "nccl", "cuda_runtime", "distributions")
    gpu = optional(environment, "gpu")
    return Run(
        started=table.integer("started") or 0,
        finished=table.integer("finished") or 0,
        problems=table.texts("problems"),
        gpu=gpu,
        capability=_capability(environment),
        driver=optional(environment, "driver"),
        same={"gpu": gpu, **{key: environment.values.get(key) for key in versions}},
        machine=_machine(environment),
        probes=[_probe(probe) for probe in table.tables("probes", required=True)],
        document=table.values,
    )


def optional(
    table: Table, key: str, *, pattern: str = "", like: str = "", may_be_empty: bool = False
) -> str:
    """Return a string that may be null or absent: then it is ""."""
    value = table.values.get(key)
    table.judged_elsewhere(key)
    if value is None or (may_be_empty and value == ""):
        return ""
    return table.text(key, pattern=pattern, like=like)


def _capability(table: Table) -> tuple[int, int] | None:
    value = table.values.get("capability")
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(type(one) is int for one in value):
        return (value[0], value[1])
    table.fault("capability", f"two integers are needed, this is {value!r}")
    return None


def _machine(table: Table) -> frozenset[str]:
    ids = [optional(table, "boot_id"), *(optional(gpu, "uuid") for gpu in table.tables("gpus"))]
    return frozenset(one.strip().lower() for one in ids if one)


def _probe(table: Table) -> Probe:
    return Probe(
        name=table.text("probe"),
        status=table.text("status"),
        reason=optional(table, "reason", may_be_empty=True),
        numbers=_numbers(table, "numbers"),
        thresholds=_thresholds(table),
        cases=[(case.text("case"), _numbers(case, "numbers")) for case in table.tables("cases")],
        seconds=_number(table, "seconds"),
        plant=optional(table, "plant"),
        stand_ins=table.texts("stand_ins", required=False),
    )


def _numbers(table: Table, key: str) -> dict[str, float]:
    inner = table.table(key)
    return {name: _number(inner, name) for name in inner.values}


def _number(table: Table, key: str) -> float:
    value = table.values.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        table.fault(key, f"a number is needed, this is {value!r}")
        return 0.0
    if abs(value) > _MOST:
        table.fault(key, "is larger than any measurement")
        return 0.0
    return value


def _thresholds(table: Table) -> dict[str, Mapping[str, float]]:
    found: dict[str, Mapping[str, float]] = {}
    inner = table.table("thresholds")
    for name in inner.values:
        rules = inner.table(name)
        if not rules.values or rules.values.keys() - set(_RULES):
            inner.fault(name, f"must hold {', '.join(_RULES)} and nothing else")
        found[name] = {rule: _number(rules, rule) for rule in rules.values if rule in _RULES}
    return found

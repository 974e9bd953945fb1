"""Have the required probes passed? Every number is held to its limits again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipeline.release.limits import Limit, Limits, Rules, broken_rules
from pipeline.release.refusals import Reason, Refused
from pipeline.release.run import Probe, Run

_PASSED = "passed"
_CAPABILITY = "capability"


def judge_probes(
    run: Run, required: Sequence[str], capability: tuple[int, int], limits: Limits, rank: str
) -> Iterator[Refused]:
    """Yield why the required probes of a run have not all passed."""
    by_name: dict[str, list[Probe]] = {}
    for probe in run.probes:
        by_name.setdefault(probe.name, []).append(probe)
    for name in required:
        where, results = f"{rank}: {name}", by_name.get(name, [])
        if not results:
            yield Refused(Reason.PROBE_MISSING, where, "it is required and was not run")
        elif len(results) > 1:
            yield Refused(Reason.PROBE_TWICE, where, f"{len(results)} results")
        for probe in results:
            yield from _judge(probe, capability, limits, where)


def _judge(
    probe: Probe, capability: tuple[int, int], limits: Limits, where: str
) -> Iterator[Refused]:
    if probe.plant:
        problem = f"it ran with the planted fault {probe.plant}"
        yield Refused(Reason.PROBE_PLANTED, where, problem)
    if probe.stand_ins:
        problem = f"it stood in for something: {', '.join(probe.stand_ins)}"
        yield Refused(Reason.PROBE_NOT_REAL, where, problem)
    if probe.status != _PASSED:
        said = probe.status + (f": {probe.reason}" if probe.reason else "")
        yield Refused(Reason.PROBE_FAILED, where, said)
        return
    if not probe.thresholds:
        yield Refused(Reason.NUMBER_MISSING, where, "it passed without a threshold")
    for name, rules in probe.thresholds.items():
        if name not in probe.numbers:
            yield Refused(Reason.NUMBER_MISSING, where, f"{name} has a threshold and no value")
        else:
            yield from _broken(where, name, probe.numbers[name], rules)
    if _CAPABILITY in probe.numbers:
        wanted = {"equals": capability[0] * 10 + capability[1]}
        shown = probe.numbers[_CAPABILITY]
        yield from _broken(where, _CAPABILITY, shown, wanted, Reason.OTHER_GPU)
    limit = limits.get(probe.name, Limit({}))
    yield from _hold(where, probe.numbers, limit.numbers)
    if limit.cases and not probe.cases:
        yield Refused(Reason.NUMBER_MISSING, where, "there is no single measurement")
    for case, numbers in probe.cases:
        yield from _hold(f"{where}, {case}", numbers, limit.cases)


def _hold(
    where: str, numbers: Mapping[str, float], limits: Mapping[str, Rules]
) -> Iterator[Refused]:
    """Yield which of the gate's limits numbers do not keep, or have no number for."""
    for name, rules in limits.items():
        if name not in numbers:
            yield Refused(Reason.NUMBER_MISSING, where, f"there is no {name}")
        else:
            yield from _broken(where, name, numbers[name], rules)


def _broken(
    where: str, name: str, number: float, rules: Rules, reason: Reason = Reason.LIMIT_BROKEN
) -> Iterator[Refused]:
    for problem in broken_rules(name, number, rules):
        yield Refused(reason, where, problem)

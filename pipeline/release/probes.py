"""Have the required probes passed? Every number is held to its limits again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.release.limits import Limits, broken_rules
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
            for problem in broken_rules(name, probe.numbers[name], rules):
                yield Refused(Reason.LIMIT_BROKEN, where, problem)
    if _CAPABILITY in probe.numbers:
        wanted = capability[0] * 10 + capability[1]
        for problem in broken_rules(_CAPABILITY, probe.numbers[_CAPABILITY], {"equals": wanted}):
            yield Refused(Reason.OTHER_GPU, where, problem)
    for name, rules in limits.get(probe.name, {}).items():
        if name not in probe.numbers:
            yield Refused(Reason.NUMBER_MISSING, where, f"there is no {name}")
        for case, number in _values(probe, name):
            for problem in broken_rules(name, number, rules):
                yield Refused(Reason.LIMIT_BROKEN, f"{where}{case}", problem)


def _values(probe: Probe, name: str) -> Iterator[tuple[str, float]]:
    """Yield a number of the probe as a whole and of each of its cases."""
    if name in probe.numbers:
        yield "", probe.numbers[name]
    for case, numbers in probe.cases:
        if name in numbers:
            yield f", {case}", numbers[name]

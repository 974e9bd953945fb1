"""The order of work."""

from pipeline.engines.schedule import Schedule
from pipeline.graph import Plan, Step


def plan(*steps: Step) -> Plan:
    return Plan({step.id: step for step in steps}, [])


def test_light_steps_come_first_then_the_heaviest_way() -> None:
    schedule = Schedule(
        plan(
            Step("heavy", "p", {}, weight=100_000_000),
            Step("light", "p", {}),
            Step("way", "p", {}, weight=60_000_000),
            Step("behind", "p", {}, after=("way",), weight=60_000_000),
            Step("lighter", "p", {}),
        )
    )
    assert [step.id for step in schedule.ready()] == ["light", "lighter", "way", "heavy"]
    assert [step.id for step in schedule.waiting()] == ["behind"]
    assert schedule.ready() == []

"""The local engine: order, caching, failures, what it leaves behind."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import ModuleType

import pytest

from pipeline.engines.local import LocalEngine
from pipeline.engines.work import Job, work
from pipeline.errors import ChainError, OutsideTrouble, Refusal
from pipeline.failures import Failure
from pipeline.graph import Plan, Step
from pipeline.steps import program
from pipeline.steps.program import StepOutput

PROGRAM = """
from pathlib import Path
from pipeline.errors import FaultyFile, Fault, Refusal
from pipeline.steps.program import Inputs, Result

def run(inputs, out):
    what = inputs.params["do"]
    if what == "refuse":
        raise Refusal("no", hint="try", details=["one", "two"])
    if what == "faulty":
        raise FaultyFile("x.toml", [Fault("a", "b")])
    if what == "no room":
        raise OSError(28, "No space left on device")
    if what == "die":
        import os
        os._exit(1)
    text = what + "".join(step.facts["text"] for step in inputs.steps)
    (out / "text").write_text(text)
    return Result({"text": text if what != "constant" else "same"})
"""


class Seen:
    """A listener that remembers, and refuses where it is told to."""

    def __init__(self, refuse: str = "") -> None:
        self.started_ids: list[str] = []
        self.made: list[str] = []
        self.cached: list[str] = []
        self._refuse = refuse

    def started(self, step: Step) -> None:
        self.started_ids.append(step.id)

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        (self.cached if cached else self.made).append(step.id)
        if step.id == self._refuse:
            raise Refusal(f"{step.id} is bad")


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run steps of a program of the test, in this process: `spawn` would not know it."""
    module = ModuleType("pipeline.steps.toy")
    exec(PROGRAM, module.__dict__)
    monkeypatch.setitem(sys.modules, "pipeline.steps.toy", module)
    monkeypatch.setitem(program.PROGRAMS, "toy", "toy")
    monkeypatch.setattr("pipeline.engines.keys.toolchain", lambda name: name)
    monkeypatch.setattr("pipeline.engines.local.Workers", _Threads)


class _Threads:
    """As `Workers`, in threads."""

    def __init__(self, count: int, programs: object):
        self._pool = ThreadPoolExecutor(count)
        self._count = count
        self._running: dict[Future[bytes | Failure], Step] = {}

    @property
    def free(self) -> int:
        return self._count - len(self._running)

    def takes(self, step: Step) -> bool:
        return self.free > 0

    def knows(self, program: str) -> bool:
        return True

    def give(self, step: Step, job: Job) -> None:
        self._running[self._pool.submit(work, job)] = step

    def wait(self) -> list[tuple[Step, bytes | Failure]]:
        done, _ = wait(self._running, return_when=FIRST_COMPLETED)
        return [(self._running.pop(future), future.result()) for future in done]

    def end(self) -> None:
        self._pool.shutdown()


def plan(*steps: tuple[str, str, tuple[str, ...]]) -> Plan:
    return Plan({name: Step(name, "toy", {"do": do}, (), after) for name, do, after in steps}, [])


def run(cache: Path, planned: Plan, seen: Seen) -> dict[str, StepOutput]:
    def no_files(sha256: str) -> Path:
        raise AssertionError(sha256)

    return dict(LocalEngine(cache, 2).run(planned, no_files, seen))


CHAIN = plan(("a", "A", ()), ("b", "B", ("a",)), ("c", "C", ("a", "b")))


def test_steps_see_their_inputs_in_order(tmp_path: Path) -> None:
    outputs = run(tmp_path, CHAIN, Seen())
    assert outputs["c"].facts["text"] == "CABA"
    assert (outputs["c"].directory / "text").read_text() == "CABA"
    assert not list((tmp_path / "tmp").iterdir())


def test_a_step_waits_for_a_process_that_reads_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when nothing else runs: the build is not over then."""

    class Busy(_Threads):
        reads = 2

        def takes(self, step: Step) -> bool:
            return not self.reads and super().takes(step)

        def wait(self) -> list[tuple[Step, bytes | Failure]]:
            self.reads -= bool(self.reads)
            return super().wait() if self._running else []

    monkeypatch.setattr("pipeline.engines.local.Workers", Busy)
    assert run(tmp_path, CHAIN, Seen())["c"].facts["text"] == "CABA"


def test_second_run_runs_nothing(tmp_path: Path) -> None:
    run(tmp_path, CHAIN, Seen())
    seen = Seen()
    run(tmp_path, CHAIN, seen)
    assert (seen.started_ids, seen.cached) == ([], ["a", "b", "c"])


def test_a_step_that_gives_the_same_stops_the_change(tmp_path: Path) -> None:
    before = plan(("a", "A", ()), ("b", "constant", ("a",)), ("c", "C", ("b",)))
    after = plan(("a", "X", ()), ("b", "constant", ("a",)), ("c", "C", ("b",)))
    run(tmp_path, before, Seen())
    seen = Seen()
    run(tmp_path, after, seen)
    # b's file differs, so c reads something else; b's facts alone would not.
    assert seen.made == ["a", "b", "c"]
    run(tmp_path, before, again := Seen())
    assert again.made == []


def test_output_that_was_touched_is_made_again(tmp_path: Path) -> None:
    outputs = run(tmp_path, CHAIN, Seen())
    file = outputs["b"].directory / "text"
    file.chmod(0o644)
    file.write_text("BX")
    seen = Seen()
    again = run(tmp_path, CHAIN, seen)
    assert seen.made == ["b"]
    assert again["c"].facts["text"] == "CABA"


@pytest.mark.parametrize(
    ("do", "status", "text"),
    [("refuse", 1, "no"), ("faulty", 2, "x.toml: 1 fault"), ("no room", 3, "No space left")],
)
def test_failure_of_a_step_keeps_class_hint_and_details(
    tmp_path: Path, do: str, status: int, text: str
) -> None:
    with pytest.raises(ChainError) as caught:
        run(tmp_path, plan(("a", do, ()), ("b", "B", ("a",))), Seen())
    assert caught.value.exit_status == status
    assert text in caught.value.message
    assert caught.value.hint
    assert not list((tmp_path / "tmp").iterdir())


def test_first_failure_of_the_plan_is_told_and_what_precedes_it_is_finished(tmp_path: Path) -> None:
    planned = plan(
        ("a", "A", ()),
        ("a2", "A", ("a",)),
        ("b", "refuse", ()),
        ("c", "no room", ()),
        ("d", "D", ()),
    )
    seen = Seen()
    with pytest.raises(Refusal, match="no"):
        run(tmp_path, planned, seen)
    assert {"a", "a2"} <= set(seen.made)


def test_listener_that_refuses_stops_what_stands_on_the_step(tmp_path: Path) -> None:
    seen = Seen(refuse="b")
    with pytest.raises(Refusal, match="b is bad"):
        run(tmp_path, CHAIN, seen)
    assert seen.made == ["a", "b"]


def test_rubbish_of_a_killed_run_is_swept(tmp_path: Path) -> None:
    dead = tmp_path / "tmp" / "999999999-x"
    dead.mkdir(parents=True)
    (dead / "half").write_text("x")
    run(tmp_path, CHAIN, Seen())
    assert not dead.exists()


def test_no_room_is_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pipeline.engines.local.check_space",
        lambda steps, cache: (_ for _ in ()).throw(OutsideTrouble("not enough room")),
    )
    seen = Seen()
    with pytest.raises(OutsideTrouble, match="not enough room"):
        run(tmp_path, CHAIN, seen)
    assert seen.made == []


def test_processes_that_are_started_ahead_do_the_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_Threads] = []

    class Counted(_Threads):
        def __init__(self, count: int, programs: Sequence[str]):
            super().__init__(count, programs)
            made.append(self)

    monkeypatch.setattr("pipeline.engines.local.Workers", Counted)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    engine = LocalEngine(tmp_path, 2)
    engine.start_ahead()
    engine.start_ahead()
    assert engine.run(CHAIN, Path, Seen())["c"].facts["text"] == "CABA" and len(made) == 1
    assert len(engine.run(plan(("d", "D", ())), Path, Seen())) == 1 and len(made) == 2
    LocalEngine(tmp_path, 10**20).start_ahead()  # as --jobs may say
    assert len(made) == 2

"""The processes of the local engine: who takes which step, and what their end looks like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path

import pytest

from pipeline.engines.work import Job, work
from pipeline.engines.workers import Workers
from pipeline.errors import OutsideTrouble
from pipeline.graph import Step


@pytest.fixture
def workers() -> Iterator[Workers]:
    found = Workers(2, ["wheel-layer"])
    yield found
    found.end()


def job(tmp_path: Path, name: str, program: str = "debian-layer", **params: object) -> Job:
    temporary = tmp_path / f"{name}.new"
    temporary.mkdir()
    return Job(
        program=program,
        params=params,
        files={},
        steps=(),
        kept="",
        out=str(tmp_path / name),
        temporary=str(temporary),
    )


def failing(tmp_path: Path, name: str) -> Job:
    """Return a job that is refused at once: its architecture is none, after a file that is none."""
    return job(tmp_path, name, debs=[], epoch=0, level=1, architecture="arm64")


def pid(workers: Workers, step: Step) -> int | None:
    return next(
        (one.process.pid for one in workers._workers if one.step and one.step.id == step.id), None
    )


def test_a_step_goes_where_its_input_was_made(workers: Workers, tmp_path: Path) -> None:
    first, other = Step("a", "debian-layer", {}), Step("b", "debian-layer", {})
    assert workers.free == 2
    workers.give(first, failing(tmp_path, "a"))
    workers.give(other, failing(tmp_path, "b"))
    at = {"a": pid(workers, first), "b": pid(workers, other)}
    assert workers.free == 0 and at["a"] != at["b"]
    done: set[str] = set()
    while len(done) < 2:
        done |= {step.id for step, _ in workers.wait()}
    for name in ("b", "a"):
        step = Step(f"{name}2", "debian-layer", {}, after=(name,))
        workers.give(step, failing(tmp_path, step.id))
        assert pid(workers, step) == at[name]
        workers.wait()


def test_a_light_step_waits_for_the_process_that_knows_its_program(
    workers: Workers, tmp_path: Path
) -> None:
    light, heavy = Step("b", "debian-layer", {}), Step("c", "debian-layer", {}, weight=1)
    first = Step("a", "debian-layer", {})
    assert workers.takes(first)
    workers.give(first, failing(tmp_path, "a"))
    assert workers.free == 1 and not workers.takes(light) and workers.takes(heavy)
    workers.wait()
    assert workers.takes(light)


def test_a_step_that_is_only_prepared_is_never_done(workers: Workers, tmp_path: Path) -> None:
    audit, step = Step("a", "audit", {}), Step("b", "debian-layer", {})
    assert not workers.knows("audit")
    # It has no inputs and no parameters at all: what is wrong, the step itself would say.
    workers.give(audit, Job(program="audit", params={}, files={}, steps=(), kept=""))
    workers.give(step, failing(tmp_path, "b"))
    done = [one for _ in range(2) for one, _ in (workers.wait() if workers.free < 2 else [])]
    assert [one.id for one in done] == ["b"] and workers.knows("audit")


def test_an_error_of_the_program_is_told_with_its_traceback(
    workers: Workers, tmp_path: Path
) -> None:
    workers.give(Step("x", "debian-layer", {}), job(tmp_path, "x"))
    with pytest.raises(RuntimeError, match=r"(?s)step x:.*Traceback.*KeyError: 'debs'"):
        workers.wait()


def test_a_process_that_dies_is_told(workers: Workers, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # nobody writes to it: who reads it waits
    deb = {"name": "a", "version": "1", "path": "a", "size": 1, "sha256": "0" * 64}
    one = job(tmp_path, "x", debs=[deb], epoch=0, level=1, architecture="arm64")
    step = Step("x", "debian-layer", {})
    workers.give(step, replace(one, files={"0" * 64: str(pipe)}))
    workers._workers[
        0 if pid(workers, step) == workers._workers[0].process.pid else 1
    ].process.kill()
    with pytest.raises(OutsideTrouble, match="a worker process died"):
        workers.wait()


def test_a_job_that_has_no_place_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kept").write_text("x", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="without a place"):
        work(replace(job(tmp_path, "x"), out="", temporary=""))
    assert (tmp_path / "kept").exists()


def test_waiting_ends_when_news_come(workers: Workers) -> None:
    ear, mouth = Pipe(duplex=False)
    mouth.send_bytes(b"x")
    assert workers.wait(ear) == []
    assert ear.poll()  # it is left there


def test_processes_that_were_started_ahead_end_with_an_error_of_the_program(tmp_path: Path) -> None:
    """They hold signals back, so nothing but the engine ends them."""
    text = """
import sys
from pathlib import Path
from pipeline.engines.local import LocalEngine

if __name__ == "__main__":
    engine = LocalEngine(Path(sys.argv[1]), 2)
    engine.start_ahead()
    print(*[one.process.pid for one in engine._ahead._workers])
    raise SystemExit(2)
"""
    script = tmp_path / "script.py"
    script.write_text(text)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, script, tmp_path / "cache"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2 and done.stderr == ""
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2 and not any(Path("/proc", str(pid)).exists() for pid in pids)

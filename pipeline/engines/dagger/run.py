"""One run of a plan in one session: what starts when, what comes back, what went wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import dagger
from dagger import Client, Config, Retry, Timeout

from pipeline.engines.dagger.execs import Execs, settle
from pipeline.engines.dagger.known import KnownFile
from pipeline.engines.mishaps import engine_trouble, exec_trouble, full, lost, wanted
from pipeline.engines.reach import answers
from pipeline.engines.schedule import Bring, Course, Listener
from pipeline.engines.session import CONNECT_SECONDS, Session
from pipeline.errors import ChainError, OutsideTrouble, system_trouble
from pipeline.graph import Plan, Step
from pipeline.steps.layers import BLOB, layer_of
from pipeline.steps.program import StepOutput
from pipeline.trust import Trust
from pipeline.wheels.house import sha256_of

_WATCH_SECONDS = 1.0
_FETCH = "fetch"


class Run:
    """The state of one run; `space` is a directory for the layers that come."""

    def __init__(
        self,
        plan: Plan,
        file: Callable[[str], Path],
        listener: Listener,
        bring: Bring,
        session: Session,
        space: Path,
        *,
        jobs: int,
        toolbox: Callable[[str], Path],
        held: Callable[[str, int], Path | None],
        cache: Path,
    ):
        self._course = Course(plan)
        self._plan = plan
        self._file = file
        self._listener = listener
        self._bring = bring
        self._session = session
        self._space = space
        self._toolbox = toolbox
        self._held = held
        self._cache = cache
        self._trust = Trust(cache)
        self._lanes = asyncio.Semaphore(jobs)
        self._word = uuid.uuid4().hex  # tells what was made now from what the engine had
        self._made: set[str] = set()
        self._files: dict[str, Mapping[str, KnownFile]] = {}

    async def whole(self) -> Mapping[str, StepOutput]:
        """Connect and run every step; outputs by step id. Raises ChainError, maybe in a group."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch())
            try:
                await self._connected()
            except (dagger.DaggerError, OSError) as error:
                raise self._trouble(error) from error
            finally:
                watch.cancel()
        return self._course.schedule.outputs

    async def _watch(self) -> None:
        """Raise as soon as the session or its engine is gone: a request might wait for ever."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            there = self._session.alive and await asyncio.to_thread(answers, os.environ)
            if not there:
                raise lost(self._session.last_words())

    async def _connected(self) -> None:
        config = Config(
            retry=Retry(connect=False, execute=False),
            timeout=Timeout(None, connect=CONNECT_SECONDS),
        )
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    client = await stack.enter_async_context(dagger.Connection(config))
            except TimeoutError:
                raise lost("the session does not answer") from None
            await self._steps(client)

    async def _steps(self, client: Client) -> None:
        execs = Execs(client, self._file, self._cache, self._word)
        await execs.prepare(self._toolbox, list(self._plan.steps.values()))
        course = self._course
        running: dict[asyncio.Task[None], Step] = {}
        try:
            while True:
                for step in course.schedule.ready():
                    if not course.error or course.precedes(step):
                        running[asyncio.create_task(self._execute(execs, step))] = step
                if not running:
                    break
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._collect(running, task)
                if course.error and not any(map(course.precedes, running.values())):
                    break
        finally:
            await settle([*running])
            await execs.end()
        if course.error:
            raise course.error

    def _collect(self, running: dict[asyncio.Task[None], Step], task: asyncio.Task[None]) -> None:
        """Take a finished task. A step is two: its exec, and then the fetching of its layer."""
        step = running.pop(task)
        error = task.exception()
        if isinstance(error, (dagger.DaggerError, OSError)):
            error = self._trouble(error, step.id)
        if isinstance(error, ChainError):
            self._course.fail(step, error)
        elif error is not None:
            raise error
        elif task.get_name() != _FETCH:
            running[asyncio.create_task(self._fetch(step), name=_FETCH)] = step
        else:
            output = self._course.schedule.outputs[step.id]
            cached = step.id not in self._made
            self._course.finish(step, output, self._listener, cached=cached)

    async def _execute(self, execs: Execs, step: Step) -> None:
        inputs = self._course.schedule.inputs(step)
        asked: set[str] = set()
        while True:
            container = await execs.container(step, inputs)
            try:
                async with self._lanes:
                    self._listener.started(step)
                    done, printed = await execs.execute(container, step, inputs)
                break
            except dagger.ExecError as error:
                more = wanted(error.exit_code, error.stdout)
                if not more or asked.issuperset(more):  # brought, and still not there
                    raise
                self._bring(more)
                asked |= set(more)
        word, _, line = printed.partition("\n")
        if word == self._word:
            self._made.add(step.id)
        data = json.loads(line)["result"].encode("utf-8")
        output = StepOutput(self._space / step.id, data)
        self._files[step.id] = await execs.keep(done, output)
        self._course.schedule.outputs[step.id] = output

    async def _fetch(self, step: Step) -> None:
        """Bring the layer of a step into its directory here, if it made one."""
        output = self._course.schedule.outputs[step.id]
        if BLOB not in output.files:
            return
        layer, path = layer_of(output), output.directory / BLOB
        path.parent.mkdir(parents=True, exist_ok=True)
        there = self._held(layer.digest, layer.size)
        if there is not None:
            path.symlink_to(there.absolute())
            return
        try:
            await self._files[step.id][BLOB].export(str(path.absolute()))
        except dagger.QueryError as error:
            if full(str(error)):  # this disk, not the engine's
                raise OutsideTrouble(
                    f"no room for the layer of {step.id} in {self._space}"
                ) from error
            raise
        sha256 = output.files[BLOB][0]
        if await asyncio.to_thread(sha256_of, path) == sha256:
            self._trust.record(path, sha256)
        else:
            raise OutsideTrouble(
                f"the layer of {step.id} came from the engine with other bytes than it said",
                hint="run it again; if it stays so, prune the engine's cache",
            )

    def _trouble(self, error: Exception, step: str = "") -> ChainError:
        if isinstance(error, OSError):
            return system_trouble(error, step)
        if isinstance(error, dagger.ExecError):
            return exec_trouble(step, error.exit_code, error.stdout, error.stderr)
        if isinstance(error, (dagger.TransportError, dagger.ClientConnectionError)):
            return lost(self._session.last_words() or str(error))
        return engine_trouble(str(error), step)

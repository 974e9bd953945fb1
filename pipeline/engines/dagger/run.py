"""The steps of one session: what comes back, what went wrong. In a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import dagger
from dagger import Config, Retry, Timeout

from pipeline.engines.dagger.execs import Execs
from pipeline.engines.mishaps import Gone, engine_trouble, exec_trouble, full, lost, wanted
from pipeline.engines.reach import answers
from pipeline.engines.session import CONNECT_SECONDS, Session
from pipeline.engines.work import Found, Job, Outcome, Wanted, put_in_place
from pipeline.errors import ChainError, OutsideTrouble, system_trouble
from pipeline.failures import Failure
from pipeline.graph import Step
from pipeline.steps.contained import OUT, PACK, kept, unpack
from pipeline.steps.layers import BLOB
from pipeline.steps.program import RESULT, StepOutput
from pipeline.trust import Trust
from pipeline.wheels.house import sha256_of

_WATCH_SECONDS = 1.0

Tell = Callable[[tuple[Step, Outcome] | BaseException], None]
"""Takes what became of a step, or an error that ended the session; from another thread."""


class Remote:
    """Does steps on the engine of a session, `jobs` of them at a time.

    `steps` are those that may be given.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        file: Callable[[str], Path],
        session: Session,
        tell: Tell,
        *,
        jobs: int,
        cache: Path,
        toolbox: Callable[[str], Path],
        held: Callable[[str, int], Path | None],
    ):
        self._steps = steps
        self._file = file
        self._session = session
        self._tell = tell
        self._cache = cache
        self._lanes = asyncio.Semaphore(jobs)  # for execs; what they made travels beside them
        self._toolbox = toolbox
        self._held = held
        self._trust = Trust(cache)
        self._word = uuid.uuid4().hex  # tells what was made now from what the engine had
        self._loop = asyncio.new_event_loop()
        self._given: asyncio.Queue[tuple[Step, Job]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def give(self, step: Step, job: Job) -> None:
        """Begin a step; what becomes of it is told."""
        self._call(lambda: self._given.put_nowait((step, job)))

    def end(self) -> None:
        """Stop what still runs, and disconnect."""
        self._call(self._end)
        self._thread.join()

    def _call(self, function: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it has ended, and told why
            self._loop.call_soon_threadsafe(function)

    def _end(self) -> None:
        self._ended = True
        if self._task is not None:
            self._task.cancel()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._whole())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001  it is raised again, where somebody sees it
            self._tell(_cause(error))

    async def _whole(self) -> None:
        self._task = asyncio.current_task()
        if self._ended:
            return
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch())
            try:
                await self._connected()
            except (dagger.DaggerError, OSError) as error:
                raise self._trouble(error) from error
            finally:
                watch.cancel()

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
            execs = Execs(client, self._file, self._cache, self._word)
            try:
                await execs.prepare(self._toolbox, self._steps)
                async with asyncio.TaskGroup() as group:
                    while True:
                        group.create_task(self._do(execs, *await self._given.get()))
            finally:
                await execs.end()

    async def _do(self, execs: Execs, step: Step, job: Job) -> None:
        try:
            outcome = await self._outcome(execs, step, job)
        except ChainError as error:
            outcome = Failure.of(error)
        except (dagger.DaggerError, OSError) as error:
            trouble = self._trouble(error, step.id)
            if isinstance(trouble, Gone):
                raise trouble from error
            outcome = Failure.of(trouble)
        self._tell((step, outcome))

    async def _outcome(self, execs: Execs, step: Step, job: Job) -> Outcome:
        inputs = [StepOutput(Path(directory), data) for directory, data in job.steps]
        space = Path(f"{job.temporary}-room")  # beside it, and gone with the run's other places
        space.mkdir()
        container = await execs.container(step, inputs, space)
        try:
            async with self._lanes:
                done, printed = await execs.execute(container, step, inputs)
        except dagger.ExecError as error:
            if more := wanted(error.exit_code, error.stdout):
                return Wanted(more)
            raise
        word, _, line = printed.partition("\n")
        output = StepOutput(Path(job.temporary), json.loads(line)["result"].encode("utf-8"))
        await self._bring(step, output, done.directory(OUT), space)
        await asyncio.to_thread(put_in_place, output, Path(job.out))
        return output.data if word == self._word else Found(output.data)

    async def _bring(
        self, step: Step, output: StepOutput, made: dagger.Directory, space: Path
    ) -> None:
        """Fill the directory of an output; a layer that lies here already does not travel."""
        directory = output.directory
        linked = ""
        for name in kept(output.files):
            sha256, size = output.files.get(name, ("", 0))
            there = self._held(f"sha256:{sha256}", size) if name == BLOB else None
            if there is not None and _linked(there, directory / name):
                self._trust.linked(there, sha256)
                linked = name
                continue
            place = space if name == PACK else directory
            try:
                await made.file(name).export(str((place / name).absolute()))
            except dagger.QueryError as error:
                if full(str(error)):  # this disk, not the engine's
                    raise OutsideTrouble(
                        f"no room for the output of {step.id} in {self._cache}"
                    ) from error
                raise
        await asyncio.to_thread(unpack, space, directory)
        (directory / RESULT).write_bytes(output.data)
        for name in output.files.keys() - {linked}:
            if await asyncio.to_thread(sha256_of, directory / name) != output.files[name][0]:
                raise OutsideTrouble(
                    f"{name} of {step.id} came from the engine with other bytes than it said",
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


def _linked(source: Path, target: Path) -> bool:
    try:
        target.hardlink_to(source)
    except OSError:  # another file system: it travels again
        return False
    return True


def _cause(error: BaseException) -> BaseException:
    """Return what a person must know of errors that came together: an error of ours, if any is."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    ours, rest = error.split(ChainError)
    found: BaseException = ours or rest or error
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

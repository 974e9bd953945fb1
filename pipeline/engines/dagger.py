"""The engine `dagger`: the same steps in containers of a Dagger engine, local or remote.

The only module that imports dagger. A step is one exec in the toolbox. What it depends on, and so
the key under which the engine keeps it, is exactly what it reads: the toolbox, the modules of its
program, its parameters, its locked files and the files of the steps before it, all by content. So
the engine's own cache answers, in later sessions and after a restart, and a step that was run again
and gave the same bytes changes nothing behind it. Outputs stay on the engine. Only `result.json`
comes back, and the layers that the client lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import dagger
from dagger import Client, Config, Retry, Timeout

from pipeline.engines.keys import imported
from pipeline.engines.mishaps import engine_trouble, exec_trouble, lost
from pipeline.engines.reach import answers, find_engine
from pipeline.engines.schedule import Course, Listener
from pipeline.engines.session import CONNECT_SECONDS, Session, open_session
from pipeline.errors import ChainError, OutsideTrouble
from pipeline.graph import FileInput, Plan, Step
from pipeline.oci.image import canonical
from pipeline.plan_base import OWN_LAYER
from pipeline.steps.contained import FILES, OUT, RUN, STEPS, kept
from pipeline.steps.layers import BLOB, layer_of
from pipeline.steps.program import PROGRAMS, StepOutput
from pipeline.transfer.workspace import workspace
from pipeline.wheels.house import sha256_of

_PACKAGE = Path(__file__).parents[1]
_APP, _SOURCE = "/job/app", "/job/source"
_ENTRY = "pipeline.steps.contained"
_WATCH_SECONDS = 1.0
# Python's own libraries have no compiled form in Debian's packages, and every step starts a Python.
_COMPILE = ("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
_LIBRARIES = ("/usr/lib/python3.11", "/usr/local/lib/python3.11/dist-packages")


class _File(dagger.File):
    """A file on the engine whose id is known: naming it costs no request."""

    def __init__(self, client: Client, known: str):
        super().__init__(client.load_file_from_id(dagger.FileID(known))._ctx)
        self._known = known

    @classmethod
    def _graphql_name(cls) -> str:
        return "File"

    async def id(self) -> str:
        return self._known


class _Directory(dagger.Directory):
    """A directory on the engine whose id is known."""

    def __init__(self, client: Client, known: str):
        super().__init__(client.load_directory_from_id(dagger.DirectoryID(known))._ctx)
        self._known = known

    @classmethod
    def _graphql_name(cls) -> str:
        return "Directory"

    async def id(self) -> str:
        return self._known


@dataclass(frozen=True)
class DaggerEngine:
    """Runs steps on the engine that the environment names, `jobs` of them side by side.

    `toolbox` gives the archive of the toolbox for a platform (`linux/amd64`), `held` the place of
    a layer that the client has already, by digest and size. `log`, if given, takes the engine's own
    log.
    """

    cache: Path
    jobs: int
    toolbox: Callable[[str], Path]
    held: Callable[[str, int], Path | None]
    log: TextIO | None = None

    def run(
        self, plan: Plan, file: Callable[[str], Path], listener: Listener
    ) -> Mapping[str, StepOutput]:
        """Run the plan; outputs by step id. As LocalEngine's, also in which error is raised.

        The directory of an output holds its layer, if it has one, until the next run at most.
        """
        engine = find_engine(os.environ)
        with workspace(self.cache) as space, open_session(engine, self.log) as session:
            work = _Work(self, plan, file, listener, session, space)
            try:
                asyncio.run(work.run())
            except* ChainError as group:
                raise _first(group) from None
            return work.course.schedule.outputs


class _Work:
    """One run in one session."""

    def __init__(
        self,
        settings: DaggerEngine,
        plan: Plan,
        file: Callable[[str], Path],
        listener: Listener,
        session: Session,
        space: Path,
    ):
        self.course = Course(plan)
        self._settings = settings
        self._plan = plan
        self._file = file
        self._listener = listener
        self._session = session
        self._space = space
        self._run = uuid.uuid4().hex  # tells what was made now from what the engine had
        self._lanes = asyncio.Semaphore(settings.jobs)
        self._files: dict[str, dict[str, _File]] = {}  # step id -> file name -> file
        self._trees: dict[tuple[str, ...], _Directory] = {}  # ids of steps -> their outputs
        self._cached: set[str] = set()

    async def run(self) -> None:
        """Connect, and run every step. Raises ChainError."""
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._watch())
            try:
                await self._connected()
            except (dagger.DaggerError, OSError) as error:
                raise _trouble(error) from error
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
            await self._work(client)

    async def _work(self, client: Client) -> None:
        box = await self._toolbox(client)
        self._large = asyncio.create_task(self._send_large(client))
        package = await client.host().directory(str(_PACKAGE), include=["**/*.py"]).sync()
        programs = {
            program: asyncio.create_task(self._program(client, box, package, program))
            for program in sorted({step.program for step in self._plan.steps.values()})
        }
        running: dict[asyncio.Task[None], Step] = {}
        try:
            while True:
                for step in self.course.schedule.ready():
                    if not self.course.error or self.course.precedes(step):
                        task = asyncio.create_task(
                            self._execute(client, box, programs[step.program], step)
                        )
                        running[task] = step
                if not running:
                    return
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._collect(running, task)
                if self.course.error and not any(map(self.course.precedes, running.values())):
                    break
        finally:
            await _end([*running, *programs.values(), self._large])
        if self.course.error:
            raise self.course.error

    def _collect(self, running: dict[asyncio.Task[None], Step], task: asyncio.Task[None]) -> None:
        """Take a finished task. A step is two: its exec, and then the fetching of its layer."""
        step = running.pop(task)
        error = task.exception()
        if isinstance(error, (dagger.DaggerError, OSError)):
            error = _trouble(error, step.id)
        if isinstance(error, ChainError):
            self.course.fail(step, error)
        elif error is not None:
            raise error
        elif task.get_name() != _FETCH:
            fetch = asyncio.create_task(self._fetch(step), name=_FETCH)
            running[fetch] = step
        else:
            output = self.course.schedule.outputs[step.id]
            cached = step.id in self._cached
            self.course.finish(step, output, self._listener, cached=cached)

    async def _toolbox(self, client: Client) -> dagger.Container:
        """Return the toolbox, ready to start: imported once, then found again by its content."""
        platform = await client.default_platform()
        archive = self._settings.toolbox(str(platform))
        image = client.container(platform=platform).import_(client.host().file(str(archive)))
        return await (
            image.with_exec([*_COMPILE, "-j", "0", *_LIBRARIES])
            .with_env_variable("PYTHONPATH", _APP)
            .with_env_variable("PYTHONDONTWRITEBYTECODE", "1")
            .sync()
        )

    async def _program(
        self, client: Client, box: dagger.Container, package: dagger.Directory, program: str
    ) -> _Directory:
        """Return the compiled modules of a program: only those that it imports are in its key."""
        modules = imported((_ENTRY, f"pipeline.steps.{PROGRAMS[program]}"))
        sources = package.filter(include=sorted(_paths(modules)))
        compiled = (
            box.with_mounted_directory(f"{_SOURCE}/pipeline", sources)
            .with_mounted_directory(_APP, client.directory())
            .with_exec(["cp", "-r", f"{_SOURCE}/pipeline", _APP])
            .with_exec([*_COMPILE, _APP])
        )
        return _Directory(client, await compiled.directory(_APP).id())

    async def _execute(
        self, client: Client, box: dagger.Container, program: asyncio.Task[_Directory], step: Step
    ) -> None:
        inputs = self.course.schedule.inputs(step)
        job = {
            "program": step.program,
            "params": step.params,
            "steps": [output.data.decode("utf-8") for output in inputs],
        }
        container = (
            box.with_mounted_directory(_APP, await program)
            .with_mounted_directory(OUT, client.directory())
            .with_volatile_variable(RUN, self._run)
        )
        if step.files:
            container = container.with_mounted_directory(FILES, await self._locked(client, step))
        if inputs:
            container = container.with_mounted_directory(STEPS, await self._read(client, step))
        async with self._lanes:
            self._listener.started(step)
            done = await container.with_exec(
                ["python3", "-m", _ENTRY], stdin=canonical(job).decode("utf-8")
            ).sync()
            run, _, line = (await done.stdout()).partition("\n")
        data = json.loads(line)["result"].encode("utf-8")
        if run != self._run:
            self._cached.add(step.id)
        output = StepOutput(self._space / step.id, data)
        names = kept(output.files)
        ids = await asyncio.gather(*(done.directory(OUT).file(name).id() for name in names))
        self._files[step.id] = {
            name: _File(client, known) for name, known in zip(names, ids, strict=True)
        }
        self.course.schedule.outputs[step.id] = output

    async def _read(self, client: Client, step: Step) -> _Directory:
        """Return one directory with the outputs that a step reads.

        Files are linked there, not copied. Most steps read the same layers and then some, so each
        directory is built upon the longest that is there.
        """
        wanted = tuple(step.after)
        below = max((k for k in self._trees if k == wanted[: len(k)]), key=len, default=())
        if below != wanted:
            tree: dagger.Directory = self._trees.get(below) or client.directory()
            for name in wanted[len(below) :]:
                digest = self.course.schedule.outputs[name].digest.removeprefix("sha256:")
                for path, file in self._files[name].items():
                    tree = tree.with_file(f"{digest}/{path}", file)
            self._trees[wanted] = _Directory(client, await tree.id())
        return self._trees[wanted]

    async def _locked(self, client: Client, step: Step) -> dagger.Directory:
        """Return one directory with the locked files of a step, each named by its sha256.

        Large ones are sent once, all together, and linked from there; of the small ones each step
        has a copy: an operation on the engine for each would take longer.
        """
        large = {file.sha256 for file in step.files if _is_large(file)}
        small = sorted({file.sha256 for file in step.files} - large)
        files = self._sent(client, small)
        if large:
            sent = await self._large
            for sha256 in sorted(large):
                files = files.with_file(sha256, sent.file(sha256))
        return files

    async def _send_large(self, client: Client) -> dagger.Directory:
        steps = self._plan.steps.values()
        large = {file.sha256 for step in steps for file in step.files if _is_large(file)}
        return _Directory(client, await self._sent(client, sorted(large)).id())

    def _sent(self, client: Client, names: Sequence[str]) -> dagger.Directory:
        """Return locked files as a directory of this machine that the engine takes over."""
        by_place: dict[Path, list[str]] = {}
        files = client.directory()
        for sha256 in names:
            path = self._file(sha256).absolute()
            if path.name == sha256:
                by_place.setdefault(path.parent, []).append(sha256)
            else:
                files = files.with_file(sha256, client.host().file(str(path)))
        whole = [client.host().directory(str(p), include=found) for p, found in by_place.items()]
        if len(whole) == 1 and len(by_place) == 1 and len(*by_place.values()) == len(names):
            return whole[0]  # as it came: it is known by its content
        for directory in whole:
            files = files.with_directory("/", directory)
        return files

    async def _fetch(self, step: Step) -> None:
        """Bring the layer of a step into its directory here, if it made one."""
        output = self.course.schedule.outputs[step.id]
        if BLOB not in output.files:
            return
        layer, path = layer_of(output), output.directory / BLOB
        path.parent.mkdir(parents=True, exist_ok=True)
        there = self._settings.held(layer.digest, layer.size)
        if there is not None:
            path.hardlink_to(there)
            return
        await self._files[step.id][BLOB].export(str(path.absolute()))
        found = await asyncio.to_thread(sha256_of, path)
        if found != output.files[BLOB][0]:
            raise OutsideTrouble(
                f"the layer of {step.id} came from the engine with other bytes than it said",
                hint="run it again; if it stays so, prune the engine's cache",
            )


_FETCH = "fetch"


def _is_large(file: FileInput) -> bool:
    return (file.size or 0) >= OWN_LAYER


async def _end(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _paths(modules: set[str]) -> Iterator[str]:
    """Yield the files of modules, and of the packages that they are in, below the package."""
    packages = {".".join(m.split(".")[:n]) for m in modules for n in range(1, m.count(".") + 1)}
    for module in modules | packages:
        parts = module.split(".")[1:]
        path = _PACKAGE.joinpath(*parts)
        yield "/".join([*parts, "__init__.py"]) if path.is_dir() else "/".join(parts) + ".py"


def _trouble(error: Exception, step: str = "") -> ChainError:
    if isinstance(error, dagger.ExecError):
        return exec_trouble(step, error.exit_code, error.stdout, error.stderr)
    return engine_trouble(str(error), step)


def _first(group: BaseExceptionGroup[ChainError]) -> ChainError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ChainError)
    return error

"""What a step is on a Dagger engine: a container, and what is mounted into it.

Directories are put together from files, by links: `Directory.file` is what an engine identifies by
content (measured with v0.21.8; a directory that an exec made is known by that exec), and each mount
costs it more than the one before.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import dagger
from dagger import Client

from pipeline.engines.dagger.known import KnownDirectory
from pipeline.engines.keys import imported
from pipeline.engines.unused import MODULES, use
from pipeline.graph import Step
from pipeline.oci.image import canonical
from pipeline.steps.contained import FILES, OUT, PACK, RUN, STEPS, kept, write_pack
from pipeline.steps.layers import BLOB
from pipeline.steps.program import PROGRAMS, StepOutput
from pipeline.transfer.workspace import workspace

_PACKAGE = Path(__file__).parents[2]
_APP, _SOURCE = "/job/app", "/job/source"
_ENTRY = "pipeline.steps.contained"
# Python's own libraries have no compiled form in Debian's packages, and every step starts a Python.
_COMPILE = ("python3", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash")
_LIBRARIES = ("/usr/lib/python3.11", "/usr/local/lib/python3.11/dist-packages")


class Execs:
    """Makes the containers of one session. `run` is the word that tells what it made itself."""

    def __init__(self, client: Client, file: Callable[[str], Path], cache: Path, run: str):
        self._client = client
        self._cache = cache
        self._file = file
        self._run = run
        self._programs: dict[str, asyncio.Task[KnownDirectory]] = {}

    async def prepare(self, toolbox: Callable[[str], Path], steps: Sequence[Step]) -> None:
        """Bring the toolbox and the programs of these steps onto the engine.

        The toolbox is imported once, then found again by its content.
        """
        client = self._client
        platform = await client.default_platform()
        archive = client.host().file(str(toolbox(str(platform)).absolute()))
        self._box = await (
            client.container(platform=platform)
            .import_(archive)
            .with_exec([*_COMPILE, "-j", "0", *_LIBRARIES])
            .with_env_variable("PYTHONPATH", _APP)
            .sync()
        )
        self._modules = plain_modules(self._cache)
        for program in sorted({step.program for step in steps}):
            self._programs[program] = asyncio.create_task(self._program(program))

    async def end(self) -> None:
        """Let go of what is still on its way."""
        await settle(list(self._programs.values()))

    async def container(
        self, step: Step, inputs: Sequence[StepOutput], space: Path
    ) -> dagger.Container:
        """Return the container of a step, ready to be run by `execute`.

        `space` is a directory for what has to be sent.
        """
        container = (
            self._box.with_mounted_directory(_APP, await self._programs[step.program])
            .with_mounted_directory(OUT, self._client.directory())
            .with_volatile_variable(RUN, self._run)
        )
        if step.files:
            container = container.with_mounted_directory(FILES, await self._locked(step))
        if inputs:
            container = container.with_mounted_directory(STEPS, self._read(inputs, space))
        return container

    async def execute(
        self, container: dagger.Container, step: Step, inputs: Sequence[StepOutput]
    ) -> tuple[dagger.Container, str]:
        """Run the step, unless the engine has it; return the container after it, and its stdout."""
        job = {
            "program": step.program,
            "params": step.params,
            "steps": [output.data.decode("utf-8") for output in inputs],
        }
        command = ["python3", "-m", _ENTRY]
        done = await container.with_exec(command, stdin=canonical(job).decode("utf-8")).sync()
        return done, await done.stdout()

    async def _program(self, program: str) -> KnownDirectory:
        """Return the compiled modules of a program: only those that it imports are in its key."""
        modules = imported((_ENTRY, f"pipeline.steps.{PROGRAMS[program]}"))
        sources = self._client.host().directory(
            str(self._modules.absolute()), include=sorted(set(_paths(modules)))
        )
        compiled = (
            self._box.with_mounted_directory(f"{_SOURCE}/pipeline", sources)
            .with_mounted_directory(_APP, self._client.directory())
            .with_exec(["cp", "-r", f"{_SOURCE}/pipeline", _APP])
            .with_exec([*_COMPILE, _APP])
        )
        return await self._known(compiled.directory(_APP))

    def _read(self, inputs: Sequence[StepOutput], space: Path) -> dagger.Directory:
        """Return one directory with the outputs that a step reads, which lie on this machine."""
        host, tree = self._client.host(), self._client.directory()
        for output in inputs:
            name = output.digest.removeprefix("sha256:")
            write_pack(output, space / name)
            places = {PACK: space / name, BLOB: output.directory / BLOB}
            for file in kept(output.files):
                tree = tree.with_file(f"{name}/{file}", host.file(str(places[file].absolute())))
        return tree

    async def _locked(self, step: Step) -> KnownDirectory:
        """Send the locked files of a step, each named by its sha256.

        Layers of a base image may be missing here; a step that must read one says so.
        """
        here = {file.sha256 for file in step.files if self._is_here(file.sha256)}
        return await self._known(self._sent(sorted(here)))

    def _is_here(self, sha256: str) -> bool:
        return self._file(sha256).is_file()

    def _sent(self, names: Sequence[str]) -> dagger.Directory:
        """Return locked files as a directory of this machine, which the engine takes over."""
        host, places = self._client.host(), {name: self._file(name).absolute() for name in names}
        house = next((path.parent for name, path in places.items() if path.name == name), None)
        together = [name for name, path in places.items() if path.parent == house]
        files = self._client.directory()
        if house and together:
            files = host.directory(str(house), include=together)
        for name in sorted(set(names) - set(together)):
            files = files.with_file(name, host.file(str(places[name])))
        return files

    async def _known(self, directory: dagger.Directory) -> KnownDirectory:
        return KnownDirectory(self._client, await directory.id())


def plain_modules(cache: Path) -> Path:
    """Return a copy of this program's modules below the cache, all with the same mode.

    An engine knows a file by its mode too (seen with v0.21.8), and that of a checkout goes by the
    umask of whoever made it.
    """
    sources = {
        path.relative_to(_PACKAGE).as_posix(): path.read_bytes()
        for path in sorted(_PACKAGE.rglob("*.py"))
    }
    sums = [[name, hashlib.sha256(data).hexdigest()] for name, data in sources.items()]
    place = cache / MODULES / hashlib.sha256(canonical(sums)).hexdigest()
    if not place.is_dir():
        with workspace(cache) as space:
            for name, data in sources.items():
                path = space / "new" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                path.chmod(0o644)
            for path in ((space / "new"), *(space / "new").rglob("*/")):
                path.chmod(0o755)
            place.parent.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # another build was faster
                (space / "new").rename(place)
    use(place)
    return place


async def settle(tasks: Sequence[asyncio.Task[object]]) -> None:
    """End tasks, whatever they were at, and wait until they have."""
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

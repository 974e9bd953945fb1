"""Who does a step of a build on a Dagger engine: the engine, or a process of this machine.

The engine does what has weight: what reads wheels, packages or layers by the megabyte, and writes
layers of them. What has none, such as plans and audits, costs next to nothing but for what it
reads, and all of that lies here. An empty exec costs an engine more than such a step does (0.15 to
0.28 s against 0.05 to 0.4), and in a container it would read the indexes of 30 layers anew, which a
process that did the step before still holds. Both give the same bytes: this is for speed only.
"""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pipeline.engines.reach import find_engine
from pipeline.engines.session import Session, open_session
from pipeline.engines.work import Job, Outcome
from pipeline.engines.workers import Workers
from pipeline.graph import Step

if TYPE_CHECKING:
    from pipeline.engines.dagger.run import Remote


class Crew:
    """The engine, at `jobs` steps at a time, and processes of this machine.

    The engine is asked for a session by the first step for it, the processes start with the first
    for them: neither is there for a build with nothing to do.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        file: Callable[[str], Path],
        *,
        cache: Path,
        jobs: int,
        toolbox: Callable[[str], Path],
        held: Callable[[str, int], Path | None],
        log: TextIO | None,
        processes: Callable[[], Workers],
    ):
        self._steps = [step for step in steps if _goes(step)]
        self._file = file
        self._cache = cache
        self._jobs = jobs
        self._toolbox = toolbox
        self._held = held
        self._log = log
        self._processes = processes
        self._here: Workers | None = None
        self._session: Session | None = None
        self._remote: Remote | None = None
        self._stack = contextlib.ExitStack()
        self._away: set[str] = set()  # steps that the engine is at
        self._news: queue.SimpleQueue[tuple[Step, Outcome] | BaseException] = queue.SimpleQueue()
        self._ear, self._mouth = Pipe(duplex=False)

    @property
    def free(self) -> int:
        """How many processes of this machine have nothing to do."""
        return self._here.free if self._here else 0

    def takes(self, step: Step) -> bool:
        """Whether a step that is given now begins at once, or as soon as one has run there."""
        if _goes(step):
            return len(self._away) < 2 * self._jobs  # while one's layer travels, another one runs
        return self._here is None or self._here.takes(step)

    def knows(self, program: str) -> bool:
        """Whether a process here has run, or prepared, a step of a program."""
        return self._here is not None and self._here.knows(program)

    def give(self, step: Step, job: Job) -> None:
        """Begin a step, or prepare it here. Raises NoEngine when no engine takes us in."""
        if job.out and _goes(step):
            if self._remote is None:
                self._remote = self._connect()
            self._away.add(step.id)
            self._remote.give(step, job)
            return
        if self._here is None:
            self._here = self._processes()
            self._stack.callback(self._here.end)
        self._here.give(step, job)

    def wait(self) -> Sequence[tuple[Step, Outcome]]:
        """Wait until something ends. Raises OutsideTrouble when the engine is gone."""
        done: list[tuple[Step, Outcome]] = []
        if self._here is not None:
            done += self._here.wait(self._ear)
        else:
            self._ear.poll(None)
        while self._ear.poll():
            self._ear.recv_bytes()
            news = self._news.get()
            if isinstance(news, BaseException):
                if self._session is not None:
                    self._session.gone = True
                raise news
            self._away.discard(news[0].id)
            done.append(news)
        return done

    def end(self) -> None:
        """Stop at once what still runs, and end the session."""
        self._stack.close()
        self._ear.close()
        self._mouth.close()

    def _connect(self) -> Remote:
        session = self._stack.enter_context(open_session(find_engine(os.environ), self._log))
        self._session = session
        # The library's imports take longer than a build with nothing to do.
        from pipeline.engines.dagger.run import Remote

        remote = Remote(
            self._steps,
            self._file,
            session,
            self._tell,
            jobs=self._jobs,
            cache=self._cache,
            toolbox=self._toolbox,
            held=self._held,
        )
        self._stack.callback(remote.end)
        return remote

    def _tell(self, news: tuple[Step, Outcome] | BaseException) -> None:
        """Hand on, from another thread, what became of a step, or what ended all of them."""
        self._news.put(news)
        with contextlib.suppress(OSError):  # nobody waits any more
            self._mouth.send_bytes(b"1")


def _goes(step: Step) -> bool:
    """Whether a step goes to the engine."""
    return step.weight > 0

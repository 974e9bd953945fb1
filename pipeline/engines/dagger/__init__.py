"""The engine `dagger`: the same steps in containers of a Dagger engine, local or remote.

The only package that imports dagger. A step is one exec in the toolbox. What it depends on, and so
the key under which the engine keeps it, is exactly what it reads: the toolbox, the modules of its
program, its parameters, its locked files and the files of the steps before it, all by content. So
the engine's own cache answers, in later sessions and after a restart, and a step that was run again
and gave the same bytes changes nothing behind it. Outputs stay on the engine. Only `result.json`
comes back, and the layers that the client lacks.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pipeline.engines.dagger.run import Run
from pipeline.engines.reach import find_engine
from pipeline.engines.schedule import Bring, Listener, nothing
from pipeline.engines.session import open_session
from pipeline.errors import ChainError
from pipeline.graph import Plan
from pipeline.steps.program import StepOutput
from pipeline.transfer.workspace import workspace

# The library logs tracebacks of what it raises as well.
logging.getLogger("dagger").addHandler(logging.NullHandler())
logging.getLogger("dagger").propagate = False


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
        self, plan: Plan, file: Callable[[str], Path], listener: Listener, bring: Bring = nothing
    ) -> Mapping[str, StepOutput]:
        """Run the plan; outputs by step id. As LocalEngine's, also in which error is raised.

        A layer that came is in its output's directory only as long as this runs: `listener` takes
        it from there.
        """
        engine = find_engine(os.environ)
        with workspace(self.cache) as space, open_session(engine, self.log) as session:
            run = Run(
                plan,
                file,
                listener,
                bring,
                session,
                space,
                jobs=self.jobs,
                toolbox=self.toolbox,
                held=self.held,
                cache=self.cache,
            )
            try:
                return asyncio.run(run.whole())
            except BaseExceptionGroup as group:
                raise _cause(group) from None


def _cause(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what a person must know of errors that came together: an error of ours, if any is."""
    ours, rest = group.split(ChainError)
    found: BaseException = ours or rest or group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found

"""The engine `dagger`: the same steps in containers of a Dagger engine, local or remote.

The only package that imports dagger. It is the local engine, with the same cache and the same keys,
and other hands (see `crew`): what is in the cache here is asked of nobody, and a step with weight
that must run is an exec on the engine, in the toolbox. What such an exec depends on, and so the key
under which the engine keeps it, is exactly what the step reads: the toolbox, the modules of its
program, its parameters, its locked files and the files of the steps before it, all by content. So
the engine's own cache answers who has none, in later sessions and after a restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from pipeline.engines.dagger.crew import Crew
from pipeline.engines.local import LocalEngine, Run
from pipeline.engines.work import Hands

# The library logs tracebacks of what it raises as well.
logging.getLogger("dagger").addHandler(logging.NullHandler())
logging.getLogger("dagger").propagate = False


class DaggerEngine(LocalEngine):
    """Runs steps on the engine that the environment names, `jobs` of them side by side.

    `toolbox` gives the archive of the toolbox for a platform (`linux/amd64`), `held` the place of
    a layer that the client has already, by digest and size. `log`, if given, takes the engine's own
    log. `local` has the processes of this machine, which it may have started ahead.
    """

    def __init__(
        self,
        cache: Path,
        jobs: int,
        toolbox: Callable[[str], Path],
        held: Callable[[str, int], Path | None],
        log: TextIO | None = None,
        *,
        local: LocalEngine,
    ):
        super().__init__(cache, jobs)
        self._local = local
        self._toolbox = toolbox
        self._held = held
        self._log = log

    def _workers(self, run: Run, file: Callable[[str], Path]) -> Hands:
        """Return hands on the engine, which is asked for a session by the first step for it."""
        return Crew(
            run.schedule.unfinished(),
            file,
            cache=self._cache,
            jobs=self._jobs,
            toolbox=self._toolbox,
            held=self._held,
            log=self._log,
            processes=lambda: self._local.processes(run),
        )

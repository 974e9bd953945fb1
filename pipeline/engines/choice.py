"""Which engine a build runs on."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from pipeline.engines.dagger import DaggerEngine
from pipeline.engines.local import LocalEngine
from pipeline.engines.reach import find_engine, named
from pipeline.engines.schedule import Engine
from pipeline.progress import Progress
from pipeline.project import Project
from pipeline.toolbox import LINE, base_for, make_toolbox
from pipeline.wheels.house import Wheelhouse

ENGINES = ("auto", "local", "dagger")


@dataclass(frozen=True)
class Settings:
    """What engines are made with.

    `held` gives the place of a layer that lies in the layout already (see LayoutWriter.held);
    `log` takes the Dagger engine's own log, if it is given. `local` is an engine that is there.
    """

    house: Wheelhouse
    jobs: int
    held: Callable[[str, int], Path | None]
    offline: bool = False
    debian_mirror: str | None = None
    log: TextIO | None = None
    progress: Callable[[], Progress] = Progress
    root: Path = Path()
    local: LocalEngine | None = None


def choose(kind: str, settings: Settings) -> Engine:
    """Return the engine of that kind; `auto` is Dagger where the environment names one.

    Raises NoEngine when a Dagger engine is wanted and nothing answers.
    """
    house = settings.house
    local = settings.local or LocalEngine(house.cache, settings.jobs)
    if kind == "local" or (kind == "auto" and not named(os.environ)):
        return local
    find_engine(os.environ)  # at once, not when everything has been fetched

    def toolbox(platform: str) -> Path:
        lock = Project(settings.root, LINE).lock
        return make_toolbox(
            lock,
            base_for(lock, platform),
            house,
            local,
            offline=settings.offline,
            debian_mirror=settings.debian_mirror,
            progress=settings.progress(),
        )

    return DaggerEngine(
        house.cache, settings.jobs, toolbox, settings.held, settings.log, local=local
    )

"""Several transfers side by side, which end together: all done, or the first error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from pipeline.oci.registry.wire import Stopped, Wire

JOBS = 4
T = TypeVar("T")
R = TypeVar("R")


def side_by_side(
    work: Callable[[T], R], items: Iterable[T], wire: Wire, jobs: int = JOBS
) -> list[R]:
    """Return `work` of every item, in order. The first error, or Ctrl-C, stops all of them."""
    pool = ThreadPoolExecutor(jobs)
    futures = [pool.submit(work, item) for item in items]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
        for future in futures:
            if future.done() and (error := future.exception()) and not isinstance(error, Stopped):
                raise error
        return [future.result() for future in futures]
    finally:
        unfinished = not all(future.done() for future in futures)
        if unfinished:
            wire.stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        if unfinished:
            wire.stop.clear()

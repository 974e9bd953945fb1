"""Python's garbage collector, out of the way while large values without cycles are made.

It would walk all of them again and again as they become more: a third of the time that a comparison
of two images takes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect no garbage inside the block, unless it is off anyway."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()  # what was made stays for the report; the first collection would walk it all
        gc.enable()

"""What FlashInfer compiles at run time, and where compiled results can lie in an image.

Its cache is keyed by version, architecture and module, and ninja compares times only: neither tells
whether a `.so` is of the sources that stand beside it now.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pipeline.oci.tree import Located

DISTRIBUTION = "flashinfer-python"
SOURCES = "flashinfer/data"
"""Directory of the sources, below site-packages."""

PREBUILT = "flashinfer_jit_cache"
"""Package, below site-packages, of results that upstream compiled from its own sources."""

# <FLASHINFER_WORKSPACE_BASE>/.cache/flashinfer/<version>/<architecture>/cached_ops/<module>
_CACHED = re.compile(
    r"(?P<directory>(?:.+/)?\.cache/flashinfer/(?P<version>[^/]+)/[^/]+/cached_ops/[^/]+)(?:/|$)"
)


class Cached(NamedTuple):
    """A module's directory in a cache, the FlashInfer version that it is for, and one of its
    paths."""

    directory: str
    version: str
    path: str


def cached(paths: Iterable[str]) -> Iterator[Cached]:
    """Yield every path that lies in a cached module's directory."""
    for path in paths:
        if "/cached_ops/" in path and (match := _CACHED.match(path)):
            yield Cached(match["directory"], match["version"], path)


def is_cached(node: Located) -> bool:
    """Whether this lies in a directory of a cache."""
    return "/cached_ops/" in node.entry.path

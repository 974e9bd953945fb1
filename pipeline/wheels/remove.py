"""What goes when distributions are removed from an image.

Only the merged tree and the RECORDs decide ("Recording installed projects", PEP 376, PEP 627);
nothing is read from a disk.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator

from pipeline.errors import Refusal
from pipeline.inventory.distributions import Distribution
from pipeline.inventory.ownership import Ownership, claimed_path
from pipeline.oci.index import DIRECTORY
from pipeline.oci.tree import Tree
from pipeline.wheels.target import Target

_CACHE = "__pycache__"


def removal(ownership: Ownership, leaving: Collection[str]) -> list[str]:
    """Return the paths of the image, sorted, that go with the distributions named in `leaving`.

    These are what their RECORDs name, the bytecode of sources that go, and all of their dist-info
    directories; not what a distribution that stays names too, and not what is not there. Rows may
    climb out of site-packages (`../../../bin/x`), not out of the installation's prefix. Raises one
    Refusal for every row that does, and for a distribution without RECORD.
    """
    tree = ownership.tree
    named: set[str] = set()
    kept: set[str] = set()
    problems: list[str] = []
    for distribution in ownership.inventory.distributions:
        if distribution.name not in leaving:
            kept.update(path for _, path in _rows(tree, distribution) if path)
            continue
        if distribution.record is None:
            problems.append(f"{distribution.path} has no RECORD")
            continue
        prefix = distribution.site.partition("/lib/")[0] + "/"
        for row, path in _rows(tree, distribution):
            if path is None or not path.startswith(prefix):
                problems.append(f"{distribution.name}: {row!r} is outside /{prefix}")
            else:
                named.add(path)
        named.update(node.entry.path for node in tree.under(distribution.path))
    if problems:
        raise Refusal(
            f"{len(problems)} rows of RECORD name nothing that may be removed: {problems[0]}",
            hint="look at the image; nothing of it is removed",
            details=problems,
        )
    gone = {path for path in named - kept if _is_file(tree, path)}
    return sorted(gone | (_bytecode(tree, gone) - kept))


def whiteouts(
    tree: Tree, gone: Iterable[str], target: Target, *, coming: Collection[str] = ()
) -> list[str]:
    """Return the whiteouts, sorted, with which the paths `gone` leave `tree`.

    A directory of which nothing is left goes as one whiteout, unless something of `coming` (what
    the same layer brings) is below it: a directory in place of its own whiteout is no longer
    opaque once an overlay file system has it, and the old content would shine through. The scheme's
    own directories stay. A path that comes again needs no whiteout.
    """
    coming = set(coming)
    gone = set(gone) - coming
    touched = _with_parents(gone)
    stay = _with_parents(base.strip("/") for base in target.scheme("").values())
    stay |= _with_parents(coming)
    stay |= _with_parents(path for path in tree.nodes if path not in touched)
    result = gone | (touched - stay)
    return sorted(path for path in result if not any(up in result for up in _parents(path)))


def _rows(tree: Tree, distribution: Distribution) -> Iterator[tuple[str, str | None]]:
    """Yield each row with its path: links on the way are followed, the last part is not."""
    real: dict[str, str] = {}
    for row in distribution.record or ():
        path = claimed_path(distribution.site, row.path)
        if path is not None:
            parent, base = posixpath.split(path)
            if parent not in real:
                real[parent] = tree.real_path(parent) or parent
            path = posixpath.join(real[parent], base)
        yield row.path, path


def _is_file(tree: Tree, path: str) -> bool:
    found = tree.get(path)
    return found is not None and found.entry.type != DIRECTORY


def _bytecode(tree: Tree, gone: Collection[str]) -> set[str]:
    """Return the bytecode of sources that go: `__pycache__/a.*.pyc` (PEP 3147) and `a.pyc`."""
    sources = {posixpath.split(path) for path in gone if path.endswith(".py")}
    found = set()
    for path in tree.nodes:
        if not path.endswith(".pyc"):
            continue
        directory, base = posixpath.split(path)
        parent, cache = posixpath.split(directory)
        cached = cache == _CACHE and (parent, base.split(".", 1)[0] + ".py") in sources
        if cached or (directory, base[:-1]) in sources:
            found.add(path)
    return found


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path


def _with_parents(paths: Iterable[str]) -> set[str]:
    """Return the paths with every directory above them."""
    found: set[str] = set()
    for path in paths:
        found.add(path)
        for parent in _parents(path):
            if parent in found:
                break
            found.add(parent)
    return found

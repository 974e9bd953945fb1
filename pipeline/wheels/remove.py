"""What goes when a distribution is removed from an image.

Format of RECORD: "Recording installed projects" (PEP 376, PEP 627). Only the merged tree and the
RECORD decide; nothing is read from disk.
"""

from __future__ import annotations

import csv
import io
import posixpath
from collections.abc import Collection, Iterable

from pipeline.errors import Refusal
from pipeline.oci.index import DIRECTORY
from pipeline.oci.tree import Located, Tree
from pipeline.wheels.target import Target

_CACHE = "__pycache__"


def record_paths(record: bytes, target: Target, distribution: str) -> list[str]:
    """Return the image paths (no leading slash) that an installed RECORD names, in its order.

    Rows may climb out of site-packages (`../../../bin/x`), not out of the target's prefix. Raises
    one Refusal for all rows that do, and for a RECORD that cannot be read.
    """
    try:
        rows = list(csv.reader(io.StringIO(record.decode("utf-8"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refusal(f"{distribution}: its RECORD is unreadable: {error}") from error
    paths: list[str] = []
    outside: list[str] = []
    for row in rows:
        if not row:
            continue
        path = posixpath.normpath(_join(target.site_packages, row[0]))
        if row[0] and "\0" not in row[0] and path.startswith(target.prefix + "/"):
            paths.append(path.removeprefix("/"))
        else:
            outside.append(row[0])
    if outside:
        raise Refusal(
            f"{distribution}: its RECORD names {len(outside)} paths outside {target.prefix}",
            hint="look at the image: these are not removed, and neither is anything else",
            details=[repr(path) for path in outside],
        )
    return paths


def _join(directory: str, path: str) -> str:
    """Join without letting `..` above the root count as the root, as a file system would."""
    joined = posixpath.join(directory, path)
    if ".." not in joined:  # nearly always
        return joined
    depth = 0
    for part in joined.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return ""
        elif part not in ("", "."):
            depth += 1
    return joined


def removed_files(tree: Tree, paths: Iterable[str], *, kept: Collection[str] = ()) -> set[str]:
    """Return what goes of `tree` with the files `paths` of distributions. All are image paths.

    `kept` are files that another distribution owns too; they stay. The .pyc of a .py that goes is
    stale, and goes with it, and so does all of a dist-info whose RECORD goes: what others left in
    it would be a broken distribution. Paths that the tree does not hold any more are left out.
    """
    kept = frozenset(kept)
    gone = {path for path in paths if path not in kept and _is_file(tree, path)}
    infos = {posixpath.dirname(path) for path in gone if path.endswith(".dist-info/RECORD")}
    left = {node.entry.path for info in infos for node in tree.under(info)}
    gone |= {path for path in left - kept if _is_file(tree, path)}
    return gone | (_bytecode(tree, gone) - kept)


def whiteouts(tree: Tree, gone: Collection[str], arriving: Collection[str]) -> list[str]:
    """Return the whiteouts, sorted, that remove the files `gone`, for a layer that adds `arriving`.

    A directory of which nothing is left goes as one whiteout, unless something arrives below it: a
    layer that removes a directory and makes it again is undone by overlay file systems, which would
    show the old files in the new directory.
    """
    gone = set(gone)
    touched = _parents(gone)
    coming = _parents(arriving) if touched else set()
    # Whatever is left keeps its parents; layers of other makers need not name these themselves.
    empty = {
        path
        for path in touched - coming
        if all(one.entry.path in gone or one.entry.path in touched for one in tree.under(path))
    }
    result = gone | empty
    return sorted(path for path in result if not any(above in result for above in _above(path)))


def _is_file(tree: Tree, path: str) -> bool:
    found = tree.get(path)
    return found is not None and found.entry.type != DIRECTORY


def _bytecode(tree: Tree, gone: Collection[str]) -> set[str]:
    """Return the cached bytecode of sources that go: `a.py` -> `__pycache__/a.*.pyc` (PEP 3147)."""
    sources = {posixpath.split(path) for path in gone if path.endswith(".py")}
    found = set()
    for path in tree.select(is_bytecode):
        directory, base = posixpath.split(path)
        parent, cache = posixpath.split(directory)
        legacy = (directory, base[:-1]) in sources
        if legacy or (cache == _CACHE and (parent, base.split(".", 1)[0] + ".py") in sources):
            found.add(path)
    return found


def is_bytecode(node: Located) -> bool:
    """Whether this is compiled Python, by its name."""
    return node.entry.path.endswith(".pyc")


def _above(path: str) -> Iterable[str]:
    while path := posixpath.dirname(path):
        yield path


def _parents(paths: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for path in paths:
        for parent in _above(path):
            if parent in found:
                break
            found.add(parent)
    return found

"""Compiled Python files that are not of the sources beside them."""

from __future__ import annotations

import _imp
from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import NOTE, WARNING, Finding
from pipeline.inventory.bytecode import CACHE, Header, is_compiled, parse_header, source_of
from pipeline.oci.tree import Located

_FIX = "remove the compiled file in the layer that changes its source; Python makes it again"


def bytecode(context: Context) -> Iterator[Finding]:
    """No compiled file is believed that was made from another source.

    What Python itself would see as out of date costs time only, and is summed up by distribution.
    """
    ignored: dict[str, list[str]] = {}
    hashed: list[tuple[str, Located, Header, Located]] = []
    for path, located in context.view.tree.select(is_compiled).items():
        source = context.view.tree.resolve(source_of(path))
        if source is None or not source.entry.has_content:
            if CACHE not in path and not context.ownership.is_owned(path):
                yield _orphan(context, path, located)
            continue
        header = parse_header(located.entry)
        if header is None or not header.believes(source.entry):
            ignored.setdefault(_owner(context, source.entry.path), []).append(path)
        elif header.digest:
            if not header.checked:  # a checked one is compared by Python at every import
                hashed.append((path, located, header, source))
        elif source.layer > located.layer:
            yield _believed(context, path, located, source, "its time and size fit")
    yield from _unchecked(context, hashed)
    for subject, paths in sorted(ignored.items()):
        yield context.finding(
            "stale-bytecode",
            subject,
            f"{len(paths)} compiled {'files are' if len(paths) > 1 else 'file is'} of other "
            "sources; Python sees that, and compiles at every start where it cannot write",
            path=min(paths),
            severity=NOTE,
        )


def _unchecked(
    context: Context, hashed: list[tuple[str, Located, Header, Located]]
) -> Iterator[Finding]:
    """Hold unchecked hashes (PEP 552) against the sources: Python never does."""
    sources = sorted({source.entry.path for _, _, _, source in hashed})
    contents = context.view.read_many(sources) if sources else {}
    for path, located, header, source in hashed:
        # The key is the magic number of the Python that compiled, not of the one that runs here.
        if _imp.source_hash(header.magic, contents[source.entry.path]) != header.digest:
            yield _believed(context, path, located, source, "it says not to check")


def _believed(context: Context, path: str, located: Located, source: Located, why: str) -> Finding:
    name = source.entry.path.rpartition("/")[2]
    return context.finding(
        "stale-bytecode",
        _owner(context, source.entry.path),
        f"the compiled file of {name} is of an earlier source, and Python believes it: {why}",
        path=path,
        layer=max(source.layer, located.layer),
        fix=_FIX,
    )


def _orphan(context: Context, path: str, located: Located) -> Finding:
    return context.finding(
        "stale-bytecode",
        path.rpartition("/")[2],
        "a compiled file without its source, which no RECORD names: it can be imported",
        path=path,
        layer=located.layer,
        severity=WARNING,
        fix="remove it",
    )


def _owner(context: Context, path: str) -> str:
    claims = context.ownership.claims_on(path)
    return claims[0].distribution.name if claims else path

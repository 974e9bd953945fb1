"""Several copies of one shared library, and which of them the loader takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import NOTE, WARNING, Finding
from pipeline.inventory.loader import Copies

_SHOWN = 3


def libraries(context: Context) -> Iterator[Finding]:
    """Every user of a SONAME gets the same file: which is loaded must not depend on who is first.

    Where the loader takes one of several copies, or none by itself, that is a note.
    """
    if context.loader is None:
        return
    for copies in context.loader.copies:
        taken = copies.taken
        # A distribution's copy stands for all: what is known is named by distribution.
        paths = (*taken, *copies.paths)
        first = next((path for path in paths if _owner(context, path)), paths[0])
        yield context.finding(
            "library-copies",
            _owner(context, first) or copies.soname,
            f"{copies.soname} is there in {len(copies.paths)} builds; {_who(copies)}",
            path=first,
            layer=context.view.tree.nodes[first].layer,
            severity=WARNING if len(taken) > 1 else NOTE,
            fix="keep one of them, or name it as known with a reason" if len(taken) > 1 else "",
        )


def _who(copies: Copies) -> str:
    """Say which copy is taken, by whom and why."""
    parts = []
    for path in copies.taken:
        users = [user for user in copies.users if user.taken.path == path]
        routes = Counter(user.taken.route for user in users)
        names = sorted({user.path.rpartition("/")[2] for user in users})
        if names:
            more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            by = f"{', '.join(names[:_SHOWN])}{more} (by {', '.join(sorted(routes))})"
            parts.append(f"/{path} is taken by {by}")
    if copies.bare is not None:
        parts.append(
            f'dlopen("{copies.soname}") takes /{copies.bare.path} (by {copies.bare.route})'
        )
    elif copies.users:
        parts.append(f'dlopen("{copies.soname}") finds none that is not loaded already')
    return "; ".join(parts) or "the loader takes none by its name"


def _owner(context: Context, path: str) -> str:
    claims = context.ownership.claims_on(path)
    return claims[0].distribution.name if claims else ""

"""Which names a module defines, and which ones are imported from it, found without running it.

Only what is certain is said. A module that can make names at run time defines no known set of them,
and an import counts only where it stands at module level under no condition.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

# What makes names that no statement of the module shows; each is looked for as text, so that a
# mention in a comment makes the module unknown too.
_DYNAMIC = re.compile(
    rb"__getattr__|__dict__|sys\.modules|import[ \t]+\*"
    rb"|\b(?:globals|locals|vars|exec|eval|setattr|lazy_\w+|Lazy\w+)\b"
)
# "from m import a, b as c  # d", over several lines in brackets, or after a backslash.
_FROM = rb"^from[ \t]+%s[ \t]+import\b(?:[ \t]*\(([^)]*)\)|((?:\\\r?\n|[^\n])*))"
_COMMENT = re.compile(rb"#[^\n]*")
_WORD = re.compile(rb"[A-Za-z_]\w*")
# What every module has, beside what it defines.
_ALWAYS = frozenset(
    f"__{name}__"
    for name in (
        *("annotations", "builtins", "cached", "dict", "doc", "file", "loader", "name", "package"),
        *("path", "spec"),
    )
)


def defined_names(source: bytes) -> list[str] | None:
    """Return every name that a module can have once it is imported, without its submodules, sorted.

    Names that are bound under a condition count. None where statements do not tell: star imports,
    `__getattr__`, `globals()` and the like, and a source that this Python does not parse.
    """
    if _DYNAMIC.search(source):
        return None
    tree = _parse(source)
    return None if tree is None else sorted(_ALWAYS.union(_bound(tree.body)))


def mentioned_names(source: bytes, module: str) -> list[str]:
    """Return all that `imported_names` can find, and perhaps more, sorted, without parsing."""
    lines = re.compile(_FROM % re.escape(module).encode(), re.M)
    found: set[str] = set()
    for several, one in lines.findall(source):
        found.update(word.decode() for word in _WORD.findall(_COMMENT.sub(b"", several or one)))
    return sorted(found)


def imported_names(source: bytes, module: str) -> dict[str, int]:
    """Return the names that a source imports from a module, each with its first line."""
    tree = _parse(source)
    found: dict[str, int] = {}
    for node in tree.body if tree else ():
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == module:
            for alias in node.names:
                if alias.name != "*":
                    found.setdefault(alias.name, node.lineno)
    return found


def _parse(source: bytes) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of others' sources: no user can act on them
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Yield what statements bind in the module; of functions and classes, their `global` names."""
    pending: list[tuple[ast.AST, bool]] = [(statement, True) for statement in body]
    while pending:
        node, here = pending.pop()
        if here:
            yield from _names(node)
        if isinstance(node, ast.Global):
            yield from node.names
        if isinstance(node, ast.NamedExpr):  # also in a default value, or a decorator
            yield node.target.id
        opens = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda)
        inside = here and not opens
        pending += [(child, inside) for child in ast.iter_child_nodes(node)]


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds by itself, in the scope that it stands in."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.Import():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case ast.ImportFrom():
            yield from (alias.asname or alias.name for alias in node.names)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name

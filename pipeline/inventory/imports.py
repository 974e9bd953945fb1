"""What a module imports whenever it is imported itself, found without running it.

Only imports that start a line are read: they stand at module level under no condition. Where such a
line is not what it seems (text of a docstring), the parser decides.
"""

from __future__ import annotations

import ast
import re
import warnings

# "from a.b import c", "import a.b as c, d.e": absolute names only, for relative ones stay inside.
# Of "from a import b" the package counts too, for the sake of b; not of what is imported most,
# which no distribution brings (this Python's own list would be another on the next Python).
_COMMON = frozenset(
    {
        "__future__",
        "abc",
        "ast",
        "asyncio",
        "base64",
        "collections",
        "concurrent",
        "contextlib",
        "copy",
        "dataclasses",
        "datetime",
        "enum",
        "functools",
        "importlib",
        "inspect",
        "io",
        "itertools",
        "json",
        "logging",
        "math",
        "multiprocessing",
        "operator",
        "os",
        "pathlib",
        "random",
        "re",
        "shutil",
        "string",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "types",
        "typing",
        "unittest",
        "urllib",
        "uuid",
        "warnings",
        "weakref",
    }
)
# After a line end, not at `^`: that is tried at every byte, a line end is searched for.
_LINE = re.compile(rb"\n(?:from[ \t]+([A-Za-z_][\w.]*)[ \t]+import\b|import[ \t]+([^\n;#]+))")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
MAX_SOURCE = 16 * 1024 * 1024  # bytes; no module that people wrote is larger
UNKNOWN_LINE = 0


def dotted_imports(source: bytes) -> list[str]:
    """Return the modules that lines of a source file import from, or by a dotted name, sorted.

    `import torch` is left out: whether a top-level package is there is another question.
    """
    found = set()
    for one, several in _LINE.findall(b"\n" + source):
        for name in [one] if one else several.split(b","):
            text = name.split(b" as ")[0].strip().decode("ascii", "replace")
            if _NAME.fullmatch(text) or (one and text not in _COMMON):
                found.add(text)
    return sorted(found)


def imports_by_top(source: bytes) -> dict[str, list[str]]:
    """Return the `dotted_imports` of a source file by their top-level packages."""
    found: dict[str, list[str]] = {}
    for module in dotted_imports(source):
        found.setdefault(module.partition(".")[0], []).append(module)
    return found


def import_line(source: bytes, module: str) -> int | None:
    """Return the line on which a module is imported at module level without condition, or None.

    UNKNOWN_LINE when the source does not parse with this Python: an image's Python can be newer.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of others' sources: no user can act on them
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return UNKNOWN_LINE
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        if module in names:
            return node.lineno
    return None

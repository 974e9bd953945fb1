"""Every named definition of a source file, found with tree-sitter: Python, C++ and CUDA."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import PurePosixPath

import tree_sitter_cpp
import tree_sitter_cuda
import tree_sitter_python
from tree_sitter import Language, Node, Parser, Query, QueryCursor

from pipeline.patching.braces import split_branches, why_unbalanced
from pipeline.patching.encoding import BOM, PYTHON_SUFFIXES

_CPP_SUFFIXES = frozenset({".h", ".hpp", ".cc", ".cpp", ".cxx"})
_CUDA_SUFFIXES = frozenset({".cu", ".cuh"})

_PYTHON_QUERY = """
(function_definition name: (identifier) @name) @scope
(class_definition name: (identifier) @name) @scope
"""
_CPP_QUERY = """
(function_definition declarator: (_) @name body: (_) @body) @scope
(struct_specifier name: (_) @name body: (_) @body) @scope
(class_specifier name: (_) @name body: (_) @body) @scope
(union_specifier name: (_) @name body: (_) @body) @scope
(namespace_definition body: (_) @body) @scope
"""

_NOT_END = re.compile(rb"[^\n]")
_NL = b"\n"
_LONE_CR = re.compile(rb"\r(?!\n)")
_NOT_ASCII = bytes(range(128)) + b"x" * 128


@dataclass(frozen=True)
class Definition:
    """A definition before its lines are made whole.

    The first `open_parts` parts of its name may be left out. `body` is the span of its braces
    (C++), `broken` the line of the first syntax error inside, or 0 (Python).
    """

    name: tuple[str, ...]
    start: int
    end: int
    line: int
    open_parts: int
    body: tuple[int, int]
    broken: int

    def matches(self, wanted: tuple[str, ...]) -> bool:
        return any(self.name[skip:] == wanted for skip in range(self.open_parts + 1))

    def doubt(self, language: str, data: bytes) -> str:
        if language == "python":
            return f"syntax error at line {self.broken}" if self.broken else ""
        name = re.compile(rb"\b" + re.escape(self.name[-1].encode()) + rb"\b")
        for span in split_branches(data):
            again = name.search(data, *span)
            outside = span[1] <= self.start or self.end <= span[0]
            if again and outside:
                # the grammar does not see this branch, and it may define the name again
                return f"an #if branch names it at line {data.count(_NL, 0, again.start()) + 1}"
        return why_unbalanced(data, *self.body)


def language_of(path: str) -> str | None:
    """The grammar for a file, by its suffix, or None when scopes cannot be named in it."""
    suffix = PurePosixPath(path).suffix
    if suffix in PYTHON_SUFFIXES:
        return "python"
    if suffix in _CPP_SUFFIXES:
        return "cpp"
    return "cuda" if suffix in _CUDA_SUFFIXES else None


@cache
def _grammar(language: str) -> tuple[Language, Query]:
    module = {
        "python": tree_sitter_python,
        "cpp": tree_sitter_cpp,
        "cuda": tree_sitter_cuda,
    }[language]
    grammar = Language(module.language())
    return grammar, Query(grammar, _PYTHON_QUERY if language == "python" else _CPP_QUERY)


def _readable(data: bytes) -> bytes:
    """The file in a form that a grammar reads whatever its encoding, every byte in its place.

    Bytes beyond ASCII become a letter: in comments and strings they mean nothing here, in names
    the true bytes are taken from the file. A lone CR ends a line, as it does for Python.
    """
    return _LONE_CR.sub(b"\n", data.translate(_NOT_ASCII))


@lru_cache(maxsize=64)
def definitions(language: str, data: bytes) -> Sequence[Definition]:
    """Every named definition, outer before inner, with its name in full."""
    skipped = len(BOM) if data.startswith(BOM) else 0
    grammar, query = _grammar(language)
    text = _readable(data[skipped:])
    if language != "python":
        for start, end in split_branches(text):
            text = text[:start] + _NOT_END.sub(b" ", text[start:end]) + text[end:]
    tree = Parser(grammar).parse(text)
    found: list[tuple[int, int, tuple[str, ...], Node, Node | None]] = []
    for _, captures in QueryCursor(query).matches(tree.root_node):
        (node,) = captures["scope"]
        parts = _own_name(node, captures.get("name"), data, skipped)
        if parts is not None:
            outer = _outermost(node)
            body = captures["body"][0] if "body" in captures else None
            found.append((outer.start_byte + skipped, outer.end_byte + skipped, parts, node, body))
    found.sort(key=lambda item: (item[0], -item[1]))
    result: list[Definition] = []
    around: list[Definition] = []
    for start, end, parts, node, body in found:
        while around and around[-1].end <= start:
            around.pop()
        name, open_parts = (around[-1].name, around[-1].open_parts) if around else ((), 0)
        if node.type == "namespace_definition" and open_parts == len(name):
            open_parts += len(parts)
        definition = Definition(
            name + parts,
            start,
            end,
            node.start_point.row + 1,
            open_parts,
            (body.start_byte + skipped, body.end_byte + skipped) if body else (start, end),
            _first_error(node) if body is None and node.has_error else 0,
        )
        around.append(definition)
        if parts:
            result.append(definition)
    return tuple(result)


def _outermost(node: Node) -> Node:
    """The statement that a definition is part of: with its decorators or its template heads."""
    while (parent := node.parent) is not None and parent.type in (
        "decorated_definition",
        "template_declaration",
    ):
        node = parent
    return node


def _own_name(
    node: Node, names: list[Node] | None, data: bytes, skipped: int
) -> tuple[str, ...] | None:
    """What a definition itself is called: () for an anonymous namespace, None when unreadable."""
    if node.type == "namespace_definition":
        name = node.child_by_field_name("name")
        return cpp_parts(_text(name, data, skipped)) if name else ()
    declarator: Node | None = names[0] if names else None
    while declarator is not None and declarator.type.endswith("_declarator"):
        inner = declarator.child_by_field_name("declarator")
        if inner is None:  # reference and parenthesized declarators have no field for it
            inner = next((c for c in declarator.named_children if "declarator" in c.type), None)
        declarator = inner
    return (cpp_parts(_text(declarator, data, skipped)) or None) if declarator else None


def _text(node: Node, data: bytes, skipped: int) -> str:
    raw = data[node.start_byte + skipped : node.end_byte + skipped]
    return raw.decode("utf-8", "backslashreplace")


def cpp_parts(name: str) -> tuple[str, ...]:
    """`ns::S<T, 2>::f` and `ns.S.f` -> ("ns", "S", "f"); operators keep their signs."""
    head, operator, sign = name.partition("operator")
    if operator and (not sign or not (sign[0].isalnum() or sign[0] == "_")):
        return (*cpp_parts(head.removesuffix("::").removesuffix(".")), "operator" + sign.strip())
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return tuple(part.strip() for part in name.replace("::", ".").split(".") if part.strip())


def _first_error(node: Node) -> int:
    """The line of the first syntax error below a node, or 0."""
    if node.is_error or node.is_missing:
        return node.start_point.row + 1
    for child in node.children:
        if child.has_error and (line := _first_error(child)):
            return line
    return 0

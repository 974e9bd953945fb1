"""The changes that a mutation run tries: what each is, and how it gets into the running program.

mutmut says what may be changed in a source text; here that is narrowed to what a program decides
(`docs/mutation.md`), and a change becomes the code object of one function, which takes the place of
the function's own: nothing is imported again, and nothing else of the module differs.
"""

from __future__ import annotations
import __future__

import ast
import difflib
import functools
import hashlib
import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import file_mutation, mutators
from mutmut.mutation.pragma_handling import IgnoredCode

_WORDING = (mutators.operator_string, mutators.operator_arg_removal)
# What the other operators reach already inside of a condition.
_REACHED = (cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)
# Decorators below which the function itself is found again.
_SEEN_THROUGH = {"property", "cached_property", "contextmanager", "cache", "lru_cache"}
_COMPOUND = (cst.If, cst.While)


class CannotChange(Exception):
    """The changed function does not fit in the place of the running one."""


def condition_turned(node: cst.If | cst.While) -> Iterable[cst.CSTNode]:
    """`if found:` becomes `if not found:`, where nothing else changes the condition."""
    if not isinstance(node.test, _REACHED):
        inner = node.test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), inner))


def call_dropped(node: cst.Expr) -> Iterable[cst.CSTNode]:
    """`seen.add(path)` becomes `pass`; a docstring stays."""
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def raise_dropped(node: cst.Raise) -> Iterable[cst.CSTNode]:
    """A refusal that is not made: `raise …` becomes `pass`."""
    if node.exc is not None:
        yield cst.Pass()


def operators() -> list[tuple[type, Any]]:
    """Which change is tried on which kind of node."""
    kept = [pair for pair in mutators.mutation_operators if pair[1] not in _WORDING]
    return [
        *kept,
        (cst.If, condition_turned),
        (cst.While, condition_turned),
        (cst.Expr, call_dropped),
        (cst.Raise, raise_dropped),
    ]


class _Visitor(file_mutation.MutationVisitor):  # type: ignore[misc]
    """mutmut's own, but it goes into properties and the like too, and keeps where a change is."""

    def __init__(self) -> None:
        super().__init__(operators(), IgnoredCode(set(), set(), set()))
        self.lines: list[range] = []
        self._statements: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseStatement):
            self._statements.append(node)
        return bool(super().on_visit(node))

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.BaseStatement):
            self._statements.pop()
        super().on_leave(original_node)

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef) and node.decorators:
            return not all(map(_seen_through, node.decorators))
        return bool(super()._skip_node_and_children(node))

    def _create_mutations(self, node: cst.CSTNode) -> None:
        super()._create_mutations(node)
        if len(self.mutations) > len(self.lines):
            last = node.test if isinstance(node, _COMPOUND) else node
            where = self._statements[-1] if self._statements else node
            first = self.get_metadata(PositionProvider, where).start.line
            # What is said in a function's head is asked of whoever runs the function; and some
            # nodes, an `and` for one, have no place of their own.
            last = where if isinstance(where, cst.FunctionDef) else last
            place = self.get_metadata(PositionProvider, last, None)
            lines = range(first, (place.end.line if place else first) + 1)
            self.lines += [lines] * (len(self.mutations) - len(self.lines))


def _seen_through(decorator: cst.Decorator) -> bool:
    node = decorator.decorator
    node = node.func if isinstance(node, cst.Call) else node
    name = node.attr if isinstance(node, cst.Attribute) else node
    known = {"staticmethod", "classmethod"} | _SEEN_THROUGH
    return isinstance(name, cst.Name) and name.value in known


@dataclass(frozen=True)
class Mutant:
    """One change of one function.

    path       the file, relative to the root
    function   `name` or `Class.name`
    number     its place among the changes of the function, from 1
    lines      the lines of the statement that it is in, as the file counts them
    before     the function's text
    after      the text with the change
    """

    path: str
    function: str
    number: int
    lines: range
    before: str
    after: str

    @property
    def module(self) -> str:
        """The dotted name of the file."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"{self.module}:{self.function}:{self.number}"

    @property
    def key(self) -> str:
        """Equal as long as neither the function nor the change has changed."""
        text = f"{self.path}\0{self.function}\0{self.before}\0{self.after}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def diff(self) -> str:
        """The change as lines of a diff, with one line around it."""
        lines = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), n=1)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++")))

    def apply(self) -> None:
        """Put the changed function in the place of the running one, in this process.

        Raises CannotChange where that is not possible.
        """
        target = _running(importlib.import_module(self.module), self.function)
        owner, _, name = self.function.rpartition(".")
        before, after = (_compiled(text, owner, name) for text in (self.before, self.after))
        if target.__code__.co_freevars != after[0].co_freevars:
            raise CannotChange(self.name)
        target.__code__ = after[0]
        if ast.dump(before[1]) != ast.dump(after[1]):
            values = [_value(node, target) for node in after[1].defaults]
            target.__defaults__ = tuple(values) or None
            pairs = zip(after[1].kwonlyargs, after[1].kw_defaults, strict=True)
            target.__kwdefaults__ = {arg.arg: _value(node, target) for arg, node in pairs if node}


def _value(node: ast.expr, target: FunctionType) -> Any:
    code = compile(ast.Expression(node), target.__code__.co_filename, "eval")
    return eval(code, target.__globals__)  # a default of the project's own text


def _running(module: Any, qualified: str) -> FunctionType:
    owner, _, name = qualified.rpartition(".")
    found = vars(vars(module)[owner] if owner else module)[name]
    while not isinstance(found, FunctionType) or hasattr(found, "__wrapped__"):
        if isinstance(found, property):
            found = found.fget
        elif isinstance(found, functools.cached_property):
            found = found.func
        elif isinstance(found, (staticmethod, classmethod)):
            found = found.__func__
        elif hasattr(found, "__wrapped__"):
            found = found.__wrapped__
        else:
            raise CannotChange(qualified)
    return found


def _compiled(text: str, owner: str, name: str) -> tuple[CodeType, ast.arguments]:
    """The code of a function, as it is compiled inside of its class, and its parameters."""
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    if owner:
        head = ast.parse(f"class {owner}:\n    pass").body[0]
        assert isinstance(head, ast.ClassDef)
        head.body, tree.body = [function], [head]
    flags = __future__.annotations.compiler_flag
    code = compile(tree, "<changed>", "exec", flags=flags, dont_inherit=True)
    if owner:
        code = next(one for one in code.co_consts if isinstance(one, CodeType))
    found = [one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == name]
    return found[-1], function.args


def find_mutants(root: Path, path: str) -> Iterator[Mutant]:
    """Every change of every function of a file, in the file's order."""
    wrapper = MetadataWrapper(cst.parse_module((root / path).read_text(encoding="utf-8")))
    visitor = _Visitor()
    module = wrapper.visit(visitor)
    owners: dict[cst.CSTNode, str] = {}
    for node in module.body:
        if isinstance(node, cst.FunctionDef):
            owners[node] = node.name.value
        elif isinstance(node, cst.ClassDef):
            for inner in node.body.body:
                if isinstance(inner, cst.FunctionDef):
                    owners[inner] = f"{node.name.value}.{inner.name.value}"
    counts: dict[str, int] = {}
    for mutation, lines in zip(visitor.mutations, visitor.lines, strict=True):
        function = mutation.contained_by_top_level_function
        if function not in owners:
            continue  # the level of a module or a class
        qualified = owners[function]
        counts[qualified] = counts.get(qualified, 0) + 1
        changed = file_mutation.deep_replace(
            function, mutation.original_node, mutation.mutated_node
        )
        texts = (cst.Module([one]).code.strip() + "\n" for one in (function, changed))
        before, after = texts
        yield Mutant(path, qualified, counts[qualified], lines, before, after)

"""Braces of C++ files, counted on their own in every preprocessor branch.

The grammar takes all branches of an `#if` for one text. Where a branch holds a brace whose partner
is outside of it, the grammar loses its way, and its idea of where a body ends may be wrong by
pages. Two helps against that: `split_branches` says which bytes to hide from the grammar, and
`why_unbalanced` proves on the whole file that a body ends where the grammar says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

Span = tuple[int, int]

# Everything that a brace may hide in is one token; what is not listed here cannot hold a brace.
_TOKEN = re.compile(
    rb"""
    (?P<skip> //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z)
      | (?:u8|[uUL])?R"(?P<tag>[^()\\\s"]{0,16})\(.*?\)(?P=tag)"
      | "(?:\\.|[^"\\\n])*" | [0-9][0-9A-Za-z_.]*(?:'[0-9A-Za-z_]+)* | '(?:\\.|[^'\\\n])*'
      | [A-Za-z_][A-Za-z0-9_]* )
    | (?:^|(?<=\n))[ \t]*\#[ \t]*(?P<directive>[a-z]*)(?:\\\r?\n|//[^\n]*|/\*.*?\*/|[^\n])*
    | (?P<brace>[{}])
    """,
    re.VERBOSE | re.DOTALL,
)

_IF = (b"if", b"ifdef", b"ifndef")
_NEXT = (b"else", b"elif", b"elifdef", b"elifndef", b"endif")


@dataclass
class _Branch:
    """One branch: its directive's span, and the depth of braces relative to its start."""

    directive: Span
    depth: int = 0
    lowest: int = 0

    def count(self, brace: bytes) -> None:
        self.depth += 1 if brace == b"{" else -1
        self.lowest = min(self.lowest, self.depth)


@dataclass
class _If:
    """An open `#if`: its branches so far, and whether it has an #else."""

    branches: list[_Branch] = field(default_factory=list)
    complete: bool = False


def split_branches(data: bytes) -> list[Span]:
    """What to hide so that only the first branch is left of every `#if` that splits a brace pair.

    Spans from the second branch's directive up to and with the #endif. An unclosed `#if` and a
    stray #endif hide nothing.
    """
    hidden: list[Span] = []
    stack: list[_If] = []
    for directive, brace, span in _tokens(data, 0, len(data)):
        if directive in _IF:
            stack.append(_If([_Branch(span)]))
        elif directive and stack:
            stack[-1].branches.append(_Branch(span))
            if directive == b"endif":
                done = stack.pop().branches
                if len(done) > 2 and any(b.depth or b.lowest < 0 for b in done[:-1]):
                    hidden.append((done[1].directive[0], span[1]))
                if stack:
                    # the outer branch goes on as the first one here left it
                    outer = stack[-1].branches[-1]
                    outer.lowest = min(outer.lowest, outer.depth + done[0].lowest)
                    outer.depth += done[0].depth
        elif brace and stack:
            stack[-1].branches[-1].count(brace)
    return hidden


def why_unbalanced(data: bytes, start: int, end: int) -> str:
    """Why the brace that opens at `start` is not closed by the one before `end`, or "".

    The depth must be the same at the end of every branch of an `#if`, and reach zero with the
    last brace only.
    """
    depth = 0
    stack: list[tuple[int, set[int], bool]] = []
    for directive, brace, span in _tokens(data, start, end):
        if brace:
            depth += 1 if brace == b"{" else -1
            if depth <= 0 and (span[1] != end or stack):
                return f"its braces close at line {_line(data, span[0])}"
        elif directive in _IF:
            stack.append((depth, set(), False))
        elif not stack:
            return f"an #if around it branches at line {_line(data, span[0])}"
        else:
            before, ends, complete = stack.pop()
            ends.add(depth)
            if directive != b"endif":
                stack.append((before, ends, complete or directive == b"else"))
                depth = before
            elif len(ends if complete else ends | {before}) > 1:
                return f"the #if that ends at line {_line(data, span[0])} splits its braces"
    return "" if depth == 0 and not stack else "its braces do not balance"


def _tokens(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, bytes, Span]]:
    """The conditional directives and the braces that count, in order."""
    for token in _TOKEN.finditer(data, start, end):
        directive, brace = token["directive"] or b"", token["brace"] or b""
        if brace or directive in _IF or directive in _NEXT:
            yield directive, brace, token.span()


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1

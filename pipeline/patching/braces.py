"""Proves where a C++ definition ends, by its braces alone.

The grammar recovers from what it cannot read, and then its idea of where a body ends may be wrong
by pages; a brace that stands in only one branch of an `#if` is the common cause. Here braces are
counted on their own, in every preprocessor branch, and must agree with the grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

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


def why_unbalanced(data: bytes, start: int, end: int) -> str:
    """Why the brace that opens at `start` is not closed by the one before `end`, or "".

    The depth must be the same at the end of every branch of an `#if`, and reach zero with the
    last brace only.
    """
    depth = 0
    branches: list[_Branches] = []
    for token in _TOKEN.finditer(data, start, end):
        directive = token["directive"]
        if token["brace"]:
            depth += 1 if token["brace"] == b"{" else -1
            if depth <= 0 and (token.end() != end or branches):
                return f"its braces close at line {_line(data, token.start())}"
        elif directive in (b"if", b"ifdef", b"ifndef"):
            branches.append(_Branches(depth))
        elif directive in (b"else", b"elif", b"elifdef", b"elifndef", b"endif"):
            line = _line(data, token.start())
            if not branches:
                return f"an #if around it branches at line {line}"
            open_if = branches[-1]
            open_if.ends.add(depth)
            if directive == b"else":
                open_if.complete = True
            if directive == b"endif":
                if not open_if.complete:
                    open_if.ends.add(open_if.before)
                if len(open_if.ends) > 1:
                    return f"the #if that ends at line {line} splits its braces"
                branches.pop()
            else:
                depth = open_if.before
    return "" if depth == 0 and not branches else "its braces do not balance"


@dataclass
class _Branches:
    """One open `#if`: the depth before it and at the end of each branch; whether it has #else."""

    before: int
    ends: set[int] = field(default_factory=set)
    complete: bool = False


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1

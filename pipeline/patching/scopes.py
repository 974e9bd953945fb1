"""Finds a dotted scope in a source file: the byte span of one function, class or namespace.

What a span holds: the whole statement with its decorators (Python) or its template head (C++,
CUDA), and the whole lines on which it stands, as far as nothing else stands on them: leading
blanks before it; `;`, a comment and the line end behind it.

How a name matches:
- Python: in full, from the module down: `function`, `Class.method`, `outer.inner`.
- C++ and CUDA: `::` and `.` mean the same, template arguments are left out (`S<3>::f` is `S.f`),
  and leading *namespaces* may be left out; enclosing classes may not. So `S` is the struct and
  `S.S` its constructor. A function counts where it has a body, a class where it has members.
- Every definition of that name counts: overloads, `#if` branches, property setters make a name
  ambiguous, and an ambiguous name is refused.

Syntax errors elsewhere do no harm, but a scope whose own end is uncertain is refused as well: a
span that is too long would let an anchor match outside of what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.patching.definitions import Definition, cpp_parts, definitions, language_of

# what may follow a definition on its last line without being part of another one
_REST_OF_LINE = re.compile(rb"[ \t]*;?[ \t]*(?:(?:#|//)[^\r\n]*)?(?:\r\n|\r|\n|\Z)")


MOST_BYTES = 16_000_000
"""No source that people write is longer. A syntax tree takes some twenty times the file's size."""


@dataclass(frozen=True)
class Scope:
    """One definition: `name` in full and dotted, its bytes `start:end`, its first line (1…).

    `doubt` says why its end is uncertain, or is empty.
    """

    name: str
    start: int
    end: int
    line: int
    doubt: str = ""


class ScopeFault(Exception):
    """A scope is not there exactly once. `lines` are the candidates; says why in one line."""

    def __init__(self, message: str, lines: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.lines = tuple(lines)


class ScopeMissing(ScopeFault):
    """No definition has that name, or the file's kind has no scopes."""


class ScopeAmbiguous(ScopeFault):
    """Several definitions have that name, or it is uncertain where the one ends."""


def knows(path: str) -> bool:
    """Whether scopes can be named in a file of this suffix."""
    return language_of(path) is not None


def find_scope(path: str, data: bytes, name: str) -> Scope:
    """The one definition `name` in the file. Raises ScopeMissing or ScopeAmbiguous."""
    language = language_of(path)
    if language is None:
        raise ScopeMissing("scopes can be named in Python, C++ and CUDA files only")
    if len(data) > MOST_BYTES:
        raise ScopeMissing(f"scopes are looked for in files up to {MOST_BYTES:,} bytes only")
    wanted = tuple(name.split(".")) if language == "python" else cpp_parts(name)
    hits: list[Definition] = []
    last: list[Definition] = []
    for definition in definitions(language, data):
        if definition.name[-1:] == wanted[-1:]:
            last.append(definition)
            if definition.matches(wanted):
                hits.append(definition)
    if not hits:
        elsewhere = ", ".join(f"{'.'.join(d.name)} (line {d.line})" for d in last[:3])
        hint = f"; there is {elsewhere}" if elsewhere else ""
        raise ScopeMissing(f"nothing is called {name}{hint}", [d.line for d in last])
    if len(hits) > 1:
        lines = [definition.line for definition in hits]
        where = ", ".join(map(str, lines))
        raise ScopeAmbiguous(f"{len(hits)} definitions are called {name}: lines {where}", lines)
    (hit,) = hits
    doubt = hit.doubt(language, data)
    if doubt:
        raise ScopeAmbiguous(f"it is uncertain where {name} ends: {doubt}", [hit.line])
    return Scope(".".join(hit.name), *_whole_lines(data, hit.start, hit.end), hit.line)


def scope_bytes(path: str, data: bytes, name: str) -> bytes | None:
    """The bytes of the one definition `name`, None when it is not there exactly once."""
    try:
        scope = find_scope(path, data, name)
    except ScopeFault:
        return None
    return data[scope.start : scope.end]


def enclosing(path: str, data: bytes, offset: int) -> str:
    """The dotted name of the innermost definition around a byte, or "" at module level."""
    language = language_of(path)
    name: tuple[str, ...] = ()
    for definition in definitions(language, data) if language and len(data) <= MOST_BYTES else ():
        if definition.start <= offset < definition.end:
            name = definition.name
    return ".".join(name)


def scopes_around(path: str, data: bytes, start: int, end: int) -> list[tuple[str, Scope]]:
    """The scopes that hold `data[start:end]`, innermost first, each under its shortest name.

    Only those that `find_scope` finds by that name. An empty span at the end of a scope is in it.
    """
    language = language_of(path)
    found: list[tuple[str, Scope]] = []
    for definition in definitions(language, data) if language and len(data) <= MOST_BYTES else ():
        span = _whole_lines(data, definition.start, definition.end)
        if not (span[0] <= start and end <= span[1]):
            continue
        names = (definition.name[definition.open_parts :], definition.name)
        for name in dict.fromkeys(".".join(parts) for parts in names if parts):
            try:
                scope = find_scope(path, data, name)
            except ScopeFault:
                continue
            if (scope.start, scope.end) == span:
                found.append((name, scope))
                break
    return sorted(found, key=lambda item: item[1].end - item[1].start)


def _whole_lines(data: bytes, start: int, end: int) -> tuple[int, int]:
    head = start
    while head > 0 and data[head - 1 : head] in (b" ", b"\t"):
        head -= 1
    if head == 0 or data[head - 1 : head] in (b"\n", b"\r"):
        start = head
    rest = _REST_OF_LINE.match(data, end)
    ended = data[end - 1 : end] == b"\n" or data[end - 1 : end + 1].startswith(b"\r")
    # a comment on the last line reaches up to the LF of a CRLF
    if rest and (not ended or data[end - 1 : end + 1] == b"\r\n"):
        end = rest.end()
    return start, end

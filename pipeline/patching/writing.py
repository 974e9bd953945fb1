"""Patches as TOML text, in the layout of `patches/`: readable, and read back to the same values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pipeline.patching.model import Edit, Patch, UpstreamTest, Variant

EMPTY: Mapping[str, str] = MappingProxyType({})


def patch_text(patch: Patch) -> str:
    """A whole patch file."""
    head = [
        f"name = {_quoted(patch.name)}",
        f"title = {_quoted(patch.title)}",
        f"why = {_block(patch.why)}",
        f"upstream = {_quoted(patch.upstream)}",
        f"distribution = {_quoted(patch.distribution)}",
    ]
    return "\n".join([*head, "", *(variant_text(variant) for variant in patch.variants)])


def variant_text(
    variant: Variant, comments: Sequence[str] = (), payloads: Mapping[str, str] = EMPTY
) -> str:
    """One `[[variants]]` table with everything in it; `comments` are lines that stand before it.

    `payloads` are the names of `replace-file`s by what they hold.
    """
    blocks = [
        "".join(f"# {line}".rstrip() + "\n" for line in comments)
        + f"[[variants]]\nfor = {_quoted(variant.label)}\n"
    ]
    blocks += [_table("upstream", _test_lines(test)) for test in variant.upstream]
    blocks += [_table("edits", _edit_lines(edit, payloads)) for edit in variant.edits]
    return "\n".join(blocks)


def _table(name: str, lines: Iterable[str]) -> str:
    return f"[[variants.{name}]]\n" + "".join(f"{line}\n" for line in lines)


def _test_lines(test: UpstreamTest) -> Iterable[str]:
    yield f"file = {_quoted(test.file)}"
    if test.within is not None:
        yield f"within = {_quoted(test.within)}"
    yield f"contains = {_block(test.contains)}"


def _edit_lines(edit: Edit, payloads: Mapping[str, str]) -> Iterable[str]:
    yield f"id = {_quoted(edit.id)}"
    yield f"file = {_quoted(edit.file)}"
    if edit.within is not None:
        yield f"within = {_quoted(edit.within)}"
    if edit.count != 1:
        yield f"count = {edit.count}"
    yield f"find = {_block(edit.find)}"
    if edit.replace in payloads:
        yield f"replace-file = {_quoted(payloads[edit.replace])}"
    else:
        yield f"replace = {_block(edit.replace)}"


def _block(text: str) -> str:
    """A literal string where what one sees is what one gets, otherwise an escaped one.

    Escaped are carriage returns (TOML reads CRLF as LF), control and format characters, and
    quotes that would end the string.
    """
    visible = all(letter.isprintable() or letter in "\n\t" for letter in text)
    if not visible or "'''" in text or text.endswith("'"):
        return _quoted(text)
    # TOML drops a line end right behind the opening quotes
    return f"'''{chr(10) if text.startswith(chr(10)) else ''}{text}'''"


def _quoted(text: str) -> str:
    """A basic string on one line."""
    made = [
        letter if letter.isprintable() and letter not in '"\\' else _escape(letter)
        for letter in text
    ]
    return f'"{"".join(made)}"'


def _escape(letter: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
    code = ord(letter)
    return short.get(letter) or (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")

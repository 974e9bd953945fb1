"""Names and texts out of images, as characters that do nothing: the image's maker chose them."""

from __future__ import annotations

_CUT = "…"


def printable(text: str) -> str:
    """Return a text on one line that moves no cursor and turns no direction.

    Control and format characters (bidirectional overrides among them), surrogates, separators of
    lines and characters that Unicode has not assigned are shown as in a Python string: `\\x1b`,
    `\\u202e`. Letters of any script stay.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def shortened(text: str, most: int) -> str:
    """Return at most `most` characters of a printable text; what was cut is marked."""
    return text if len(text) <= most else text[: most - 1].rstrip() + _CUT


def _escaped(one: str) -> str:
    number = ord(one)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

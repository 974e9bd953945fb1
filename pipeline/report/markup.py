"""Text inside GitHub's Markdown that stays text, whatever is in it."""

from __future__ import annotations

import re

from pipeline.report.plain import printable

_SPECIAL = re.compile(r"[\\`*_\[\]#|~<>&$]")
_REFERENCE = re.compile(r"[@#]|(?<=http):|(?<=https):|(?<=ftp):|(?<=www)\.", re.IGNORECASE)
_NOTHING = "\u200b"  # zero width space


def words(text: str) -> str:
    """Return a text as Markdown: no table cell ends, no HTML begins, nobody is mentioned.

    Special characters become entities, which Markdown never takes for its own signs. Mentions,
    issue numbers and addresses are found by GitHub after that, so they are broken by a character
    that is not seen.
    """
    text = _REFERENCE.sub(lambda match: match[0] + _NOTHING, printable(text))
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def code(text: str) -> str:
    """Return a name or a version as code: GitHub looks for no mentions in it."""
    escaped = _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", printable(text))
    return f"<code>{escaped}</code>" if escaped else ""

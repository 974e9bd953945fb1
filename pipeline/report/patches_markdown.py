"""What releases do to patches, as Markdown: for an issue or a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TextIO

from pipeline.patching.verdicts import Survey
from pipeline.report.patches import (
    UNNAMED,
    details,
    droppable,
    matrix,
    starred,
    told,
    worth_saying,
)

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def write_markdown(surveys: Sequence[Survey], out: TextIO) -> None:
    """The table, then a list for each patch that is not plain."""
    names = [_plain(survey.name) for survey in surveys]
    out.write(f"| patch | edit | {' | '.join(names)} |\n")
    out.write(f"|---|---|{'---|' * len(names)}\n")
    for patch, identity, cells in matrix(surveys):
        out.write(f"| {_plain(patch)} | {_plain(identity)} | {' | '.join(map(_plain, cells))} |\n")
    if starred(surveys):
        out.write(f"\n{_plain(UNNAMED)}\n")
    for survey in surveys:
        for report in survey.patches:
            if not worth_saying(report):
                continue
            name = _plain(report.patch.name)
            out.write(f"\n### {name} on {_plain(survey.name)}: {report.state}\n\n")
            if report.message:
                out.write(f"{_plain(report.message)}\n\n")
            for identities, edit in told(report):
                out.write(f"- **{_plain(identities)}** {edit.verdict}\n")
                for word, text in details(edit):
                    said = _code(text) if word in ("line", "proposed") else _plain(text)
                    out.write(f"  - {word}{': ' if word else ''}{said}\n")
    lines = droppable(surveys)
    if lines:
        out.write("\n" + "".join(f"- {_plain(line)}\n" for line in lines))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _code(text: str) -> str:
    """A code span, with as many marks as the text asks for (CommonMark 6.1)."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    marks = "`" * (longest + 1)
    text = " ".join(text.split())
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{space}{text}{space}{marks}"

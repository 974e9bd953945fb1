"""Columns of text: aligned everywhere, folded to the width of a terminal and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP = 2
_ENDLESS = 1_000_000  # columns of what is no terminal: lines for grep


def console_on(out: TextIO) -> Console:
    """Return a console; colours only on a terminal, and not where NO_COLOR is set."""
    width = None if out.isatty() else _ENDLESS
    return Console(file=out, highlight=False, soft_wrap=width is not None, width=width)


def width_of(rows: Sequence[Sequence[Text]]) -> int:
    """Return how wide `write_rows` would like to write them."""
    return sum(max(cell.cell_len for cell in cells) + _GAP for cells in zip(*rows, strict=True))


def write_rows(console: Console, rows: Sequence[Sequence[Text]]) -> None:
    """Write rows of equally many cells. The last column takes what is left of the width.

    Without a terminal no line is folded, and none ends with spaces.
    """
    if not rows:
        return
    if console.is_terminal:
        table = Table.grid(padding=(0, _GAP, 0, 0))
        for _ in rows[0][:-1]:
            table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        return
    widths = [max(row[n].cell_len for row in rows) for n in range(len(rows[0]) - 1)]
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=False):
            line.append_text(cell)
            line.append(" " * (width - cell.cell_len + _GAP))
        line.append_text(row[-1])
        line.rstrip()
        console.print(line)

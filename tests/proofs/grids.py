"""A tensor of plain lists, for upstream code that does a few torch operations on rows of numbers.

`Grid` has what the proofs need of `torch.Tensor` in one and two dimensions, with its meaning, and
`TORCH` stands for the module. A proof that runs on it runs on torch as well, where torch is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

Number = float  # or bool, int: what a cell holds


class Grid:
    """Rows of numbers; `flat` says that they are one dimension, of which `rows` is the only row."""

    device = "cpu"
    dtype = "number"

    def __init__(self, rows: Sequence[list[Any]], *, flat: bool = False):
        self.rows = list(rows)
        self.flat = flat

    @property
    def shape(self) -> tuple[int, ...]:
        width = len(self.rows[0]) if self.rows else 0
        return (width,) if self.flat else (len(self.rows), width)

    def numel(self) -> int:
        return sum(map(len, self.rows))

    def reshape(self, *shape: int) -> Grid:
        cells = [cell for row in self.rows for cell in row]
        if shape == (-1,):
            return Grid([cells], flat=True)
        assert shape == (-1, 1)
        return Grid([[cell] for cell in cells])

    def to(self, dtype: object) -> Grid:
        return self

    def tolist(self) -> Any:
        return self.rows[0] if self.flat else self.rows

    def _with(self, other: Any, do: Callable[[Any, Any], Any]) -> Grid:
        if not isinstance(other, Grid):
            return Grid([[do(cell, other) for cell in row] for row in self.rows], flat=self.flat)
        height = max(len(self.rows), len(other.rows))
        width = max(len(self.rows[0]), len(other.rows[0]))

        def cell(grid: Grid, row: int, column: int) -> Any:
            cells = grid.rows[row if len(grid.rows) > 1 else 0]
            return cells[column if len(cells) > 1 else 0]

        return Grid(
            [
                [do(cell(self, row, column), cell(other, row, column)) for column in range(width)]
                for row in range(height)
            ],
            flat=self.flat and other.flat,
        )

    def __add__(self, other: Any) -> Grid:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Grid:
        return self._with(other, operator.sub)

    def __lt__(self, other: Any) -> Grid:
        return self._with(other, operator.lt)

    def __ge__(self, other: Any) -> Grid:
        return self._with(other, operator.ge)

    def __or__(self, other: Any) -> Grid:
        return self._with(other, operator.or_)

    def __and__(self, other: Any) -> Grid:
        return self._with(other, operator.and_)

    def clamp(self, min: Number) -> Grid:
        return self._with(min, lambda cell, low: cell if cell >= low else low)

    def _take(self, other: Grid) -> Grid:
        for mine, theirs in zip(self.rows, other.rows, strict=True):
            mine[:] = theirs
        return self

    def clamp_(self, min: Number) -> Grid:
        return self._take(self.clamp(min))

    def fill_(self, value: Number) -> Grid:
        return self._take(self._with(value, lambda _, new: new))

    def masked_fill_(self, mask: Grid, value: Number) -> Grid:
        return self._take(where(mask, value, self))

    def topk(self, k: int, dim: int) -> Any:
        assert dim == 1
        assert k <= self.shape[1]
        best = [sorted(range(len(row)), key=row.__getitem__, reverse=True) for row in self.rows]
        return SimpleNamespace(indices=Grid([order[:k] for order in best]))

    def __getitem__(self, key: Any) -> Grid:
        if self.flat:
            part, none = key
            assert none is None
            return Grid([[cell] for cell in self.rows[0][part]])
        return Grid(self.rows[key])  # the same rows, as a view

    def __setitem__(self, key: tuple[slice, slice], value: Grid) -> None:
        rows, columns = key
        for row, new in zip(self.rows[rows], value.rows, strict=True):
            row[columns] = new


def where(condition: Grid, yes: Any, no: Any) -> Grid:
    """Cells of `yes` where the condition holds, else of `no`; either may be a number."""

    def grid(value: Any) -> Grid:
        return value if isinstance(value, Grid) else Grid([[value]])

    pairs = grid(yes)._with(grid(no), lambda a, b: (a, b))
    return condition._with(pairs, lambda holds, pair: pair[0] if holds else pair[1])


def _arange(start: int, end: int | None = None, **_: object) -> Grid:
    return Grid([list(range(start) if end is None else range(start, end))], flat=True)


TORCH = SimpleNamespace(
    arange=_arange,
    where=where,
    finfo=lambda _: SimpleNamespace(min=-3.4e38),
    tensor=lambda data, **_: (
        Grid(data) if data and isinstance(data[0], list) else Grid([data], flat=True)
    ),
    float32="number",
    int32="number",
)

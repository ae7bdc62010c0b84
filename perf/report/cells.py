"""Cells of a roofline plot: many rows as few marks.

Above some 20,000 marks a plot is a cloud, and a browser takes seconds to draw it. So
the rows of a larger report are counted in cells, a twentieth of a decade wide and high,
per verdict. A cell's mark is at the mean of its rows, so it is on a ceiling if its rows
are.
"""

import dataclasses
import math
from typing import Any

from tileops.perf.report import text
from tileops.proto import roofline_pb2
from tileops.tools.cli import words

# Rows above which a plot has cells.
MOST_POINTS = 20_000

_CELLS_PER_DECADE = 20
# Fields of a cell that are those of its first row.
_NAMES = ("op", "family", "case_id", "implementation")


@dataclasses.dataclass
class Cell:
    """Rows of one verdict that are in one place of the plot.

    Attributes:
      x: Arithmetic intensity, the geometric mean of the rows; None on a rail of rows
        without one. FLOPs per byte.
      y: The same mean of FLOPs per second (on the left rail: of bytes per second); None
        without a rate.
      rail: The rail of rows that have no place between the axes: "left" (no FLOPs),
        "right" (no bytes), "bottom" (no rate); None for others.
      verdict: Name of the verdict, or "predicted".
      op: One of the rows, for an example, with `case_id`, `implementation` and
        `family`.
      count: How many rows there are.
      least: The lowest efficiency; None if no row has one.
      most: The highest.
      headroom_s: Sum of the headrooms; None if no row has one. Seconds.
    """

    x: float | None
    y: float | None
    rail: str | None
    verdict: str
    op: str
    family: str
    case_id: str
    implementation: str
    count: int = 0
    least: float | None = None
    most: float | None = None
    headroom_s: float | None = None

    def add(self, row: roofline_pb2.Row, x: float | None, y: float | None) -> None:
        """Counts a row in, which is at `x` and `y`."""
        self.count += 1
        self.x, self.y = self._mean(self.x, x), self._mean(self.y, y)
        if row.HasField("efficiency"):
            seen = [self.least, self.most, row.efficiency]
            known = [value for value in seen if value is not None]
            self.least, self.most = min(known), max(known)
            self.headroom_s = (self.headroom_s or 0.0) + row.headroom_s

    def _mean(self, before: float | None, value: float | None) -> float | None:
        if before is None or value is None:
            return None
        return before * (value / before) ** (1 / self.count)


class Cells:
    """The cells of a plot, gathered row by row."""

    def __init__(self):
        self._cells: dict[tuple, Cell] = {}

    def add(self, row: roofline_pb2.Row) -> None:
        """Counts a row in."""
        x, y, rail = _place(row)
        verdict = text.kind(row)
        key = (rail, _step(x), _step(y), verdict)
        cell = self._cells.get(key)
        if cell is None:
            named: dict[str, Any] = {name: words.printable(getattr(row, name)) for name in _NAMES}
            cell = self._cells[key] = Cell(x=x, y=y, rail=rail, verdict=verdict, **named)
        cell.add(row, x, y)

    def all(self) -> list[Cell]:
        """Returns the cells in the order of their first rows."""
        return list(self._cells.values())


def _place(row: roofline_pb2.Row) -> tuple[float | None, float | None, str | None]:
    """Returns the place of a row: intensity, rate, rail; the page's script does the same."""
    spent_s: float | None
    if row.HasField("achieved_flops_per_s"):
        spent_s = row.actual_time_s
    else:
        spent_s = row.sol_time_s if row.HasField("sol_time_s") else None
    if spent_s is None or not (row.flops or row.bytes):
        return row.arithmetic_intensity or None, None, "bottom"
    if row.flops == 0:
        return None, row.bytes / spent_s, "left"
    if row.bytes == 0:
        return None, row.flops / spent_s, "right"
    return row.flops / row.bytes, row.flops / spent_s, None


def _step(value: float | None) -> int | None:
    return None if value is None else math.floor(math.log10(value) * _CELLS_PER_DECADE)

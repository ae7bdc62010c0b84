"""Many points of a roofline plot as few: rows gathered in cells of its two axes.

Above some 20,000 marks a plot shows a cloud, and a browser takes seconds to draw
it. So the rows of a larger report are counted in cells, a twentieth of a decade
wide and high, apart by verdict. A cell's mark stands at the mean of its rows, which
is on a ceiling where they are.
"""

import dataclasses
import math

from tileops.perf.report import text
from tileops.proto import roofline_pb2
from tileops.tools.cli import words

# Rows above which a plot has cells.
MOST_POINTS = 20_000

_CELLS_PER_DECADE = 20
# What a cell tells of its first row.
_NAMES = ("op", "family", "case_id", "implementation")


@dataclasses.dataclass
class Cell:
    """Rows of one kind that would stand in one place of the plot.

    Attributes:
      x: Arithmetic intensity, in FLOPs per byte: the geometric mean of the rows';
        None on a rail of rows that have none.
      y: FLOPs (on the left rail: bytes) per second, the same mean; None where there
        is no rate.
      rail: Where rows stand that have no place between the axes: "left" (no FLOPs),
        "right" (no bytes), "bottom" (no rate); None for others.
      verdict: Name of the verdict, or "predicted".
      op: One of the rows, for an example, with `case_id`, `implementation` and
        `family`.
      count: How many rows there are.
      least: The lowest efficiency; None where no row has one.
      most: The highest.
      headroom_s: Sum of the headrooms; None where no row has one. Seconds.
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
        """Counts a row in, which stands at `x` and `y`."""
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
            cell = self._cells[key] = Cell(
                x=x, y=y, rail=rail, verdict=verdict, **{name: words.printable(getattr(row, name)) for name in _NAMES}
            )
        cell.add(row, x, y)

    def all(self) -> list[Cell]:
        """Returns the cells in the order of their first rows."""
        return list(self._cells.values())


def _place(row: roofline_pb2.Row) -> tuple[float | None, float | None, str | None]:
    """Returns where a row stands: intensity, rate, rail; as the page's script has it."""
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

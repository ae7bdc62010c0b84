"""Totals of many rows, by family and by op, and which ops have the most time to win."""

import array
import collections
import dataclasses
import statistics

from tileops.perf.report import text
from tileops.proto import roofline_pb2

# Rows whose efficiency says something about their kernel. An impossible row does not, and
# in a latency-bound row launch overhead hides what a faster kernel would win.
_TELLING = frozenset((roofline_pb2.VERDICT_AT_CEILING, roofline_pb2.VERDICT_BELOW, roofline_pb2.VERDICT_ANOMALY))


@dataclasses.dataclass
class Totals:
    """Totals of the rows of one op or of one family.

    Attributes:
      name: The op or the family.
      rows: How many there are.
      at_ceiling: How many of them are at the ceiling.
      counted: How many of them `headroom_s` sums.
      headroom_s: What perfect kernels would save, one call per counted row; None without
        a counted row. Seconds.
      to_win_s: The same, only of rows below the ceiling. Seconds.
      bounded: How many of them `sol_time_s` sums.
      sol_time_s: SOL time of one call of each row that has one; None if no row has one.
        Seconds.
    """

    name: str
    rows: int = 0
    at_ceiling: int = 0
    counted: int = 0
    headroom_s: float | None = None
    to_win_s: float = 0.0
    bounded: int = 0
    sol_time_s: float | None = None
    _efficiencies: array.array = dataclasses.field(default_factory=lambda: array.array("d"))

    def add(self, row: roofline_pb2.Row) -> None:
        """Counts a row in."""
        self.rows += 1
        self.at_ceiling += row.verdict == roofline_pb2.VERDICT_AT_CEILING
        if row.HasField("sol_time_s"):
            self.bounded += 1
            self.sol_time_s = (self.sol_time_s or 0.0) + row.sol_time_s
        if row.verdict in _TELLING and not row.latency_bound:
            headroom_s = max(row.headroom_s, 0.0)
            self.counted += 1
            self._efficiencies.append(row.efficiency)
            self.headroom_s = (self.headroom_s or 0.0) + headroom_s
            if row.verdict == roofline_pb2.VERDICT_BELOW:
                self.to_win_s += headroom_s

    @property
    def median_efficiency(self) -> float | None:
        """Returns the median of the counted rows; None without any."""
        return statistics.median(self._efficiencies) if self._efficiencies else None


class Summaries:
    """Totals of each family and of each op, gathered row by row.

    Attributes:
      predicted: How many rows have a bound and lack nothing but a measured time.
      blanks: How many rows are blank, by reason; predicted rows are not.
    """

    def __init__(self):
        self.predicted = 0
        self.blanks: collections.Counter[int] = collections.Counter()
        self._families: dict[str, Totals] = {}
        self._ops: dict[str, Totals] = {}

    def add(self, row: roofline_pb2.Row) -> None:
        """Counts a row in."""
        if text.is_predicted(row):
            self.predicted += 1
        elif row.verdict == roofline_pb2.VERDICT_BLANK:
            self.blanks[row.blank_reason] += 1
        for totals, name in ((self._families, row.family), (self._ops, row.op)):
            if name not in totals:
                totals[name] = Totals(name)
            totals[name].add(row)

    def rows_of(self, family: str) -> int:
        """Returns how many rows of a family there are."""
        return self._families[family].rows

    def families(self) -> list[Totals]:
        """Returns the families by name."""
        return sorted(self._families.values(), key=lambda totals: totals.name)

    def most_to_win(self, count: int) -> list[Totals]:
        """Returns the ops with the most time to win, at most `count`, the most first."""
        winnable = [totals for totals in self._ops.values() if totals.to_win_s > 0]
        return sorted(winnable, key=lambda totals: (-totals.to_win_s, totals.name))[:count]

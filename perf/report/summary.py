"""What many rows come to: by family, by op, and where the most time is to win."""

import array
import collections
import dataclasses
import statistics

from tileops.perf.report import text
from tileops.proto import roofline_pb2

# Rows whose efficiency says something about their kernel: an impossible row does
# not, and launch overhead hides what a faster kernel would win of a latency-bound
# one.
_TELLING = frozenset((roofline_pb2.VERDICT_AT_CEILING, roofline_pb2.VERDICT_BELOW, roofline_pb2.VERDICT_ANOMALY))


@dataclasses.dataclass
class Totals:
    """What the rows of one op, or of one family, come to.

    Attributes:
      name: The op or the family.
      rows: How many there are.
      at_ceiling: How many of them are at the ceiling.
      counted: How many the headroom is the sum of.
      headroom_s: What perfect kernels would save, one call of each row. Seconds;
        None where no row tells.
      to_win_s: The same of the rows below the ceiling, whose kernels are not done.
        Seconds.
      bounded: How many the SOL time is the sum of.
      sol_time_s: SOL time of one call of each row that has one. Seconds; None
        where none has.
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
        if row.verdict in _TELLING:
            headroom_s = max(row.headroom_s, 0.0)
            self.counted += 1
            self._efficiencies.append(row.efficiency)
            self.headroom_s = (self.headroom_s or 0.0) + headroom_s
            if row.verdict == roofline_pb2.VERDICT_BELOW:
                self.to_win_s += headroom_s

    @property
    def median_efficiency(self) -> float | None:
        """The median over the rows that tell; None where there is none."""
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
        """Returns the ops with the most time to win, at most `count`, the first first."""
        winnable = [totals for totals in self._ops.values() if totals.to_win_s > 0]
        return sorted(winnable, key=lambda totals: (-totals.to_win_s, totals.name))[:count]

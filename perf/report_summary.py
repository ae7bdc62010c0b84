"""What many rows come to: by family, by op, and where the most time is to win."""

import array
import dataclasses
import statistics
from collections.abc import Iterable

from tileops.proto import roofline_pb2

# Rows whose efficiency says something about their kernel: an impossible row does
# not, and launch overhead hides what a faster kernel would win of a latency-bound
# one.
_TELLING = frozenset(
    (
        roofline_pb2.VERDICT_AT_CEILING,
        roofline_pb2.VERDICT_BELOW,
        roofline_pb2.VERDICT_ANOMALY,
    )
)


@dataclasses.dataclass
class Totals:
    """What the rows of one op, or of one family, come to.

    Attributes:
      name: The op or the family.
      rows: How many there are.
      at_ceiling: How many of them are at the ceiling.
      headroom_s: Time to win: what a perfect kernel would save, one call of each
        row. Seconds.
      sol_time_s: SOL time of one call of each row that has one. Seconds.
    """

    name: str
    rows: int = 0
    at_ceiling: int = 0
    headroom_s: float = 0.0
    sol_time_s: float = 0.0
    _efficiencies: array.array = dataclasses.field(
        default_factory=lambda: array.array("d")
    )

    def add(self, row: roofline_pb2.Row) -> None:
        """Counts a row in."""
        self.rows += 1
        self.at_ceiling += row.verdict == roofline_pb2.VERDICT_AT_CEILING
        self.sol_time_s += row.sol_time_s
        if row.verdict in _TELLING:
            self._efficiencies.append(row.efficiency)
            self.headroom_s += max(row.headroom_s, 0.0)

    @property
    def median_efficiency(self) -> float | None:
        """The median over the rows that tell; None where there is none."""
        return statistics.median(self._efficiencies) if self._efficiencies else None


class Summaries:
    """Totals of each family and of each op, gathered row by row."""

    def __init__(self, rows: Iterable[roofline_pb2.Row] = ()):
        self._families: dict[str, Totals] = {}
        self._ops: dict[str, Totals] = {}
        for row in rows:
            self.add(row)

    def add(self, row: roofline_pb2.Row) -> None:
        """Counts a row in."""
        for totals, name in ((self._families, row.family), (self._ops, row.op)):
            if name not in totals:
                totals[name] = Totals(name)
            totals[name].add(row)

    def families(self) -> list[Totals]:
        """Returns the families by name."""
        return sorted(self._families.values(), key=lambda totals: totals.name)

    def most_to_win(self, count: int) -> list[Totals]:
        """Returns the ops with the most headroom, at most `count`, the first first."""
        winnable = [totals for totals in self._ops.values() if totals.headroom_s > 0]
        return sorted(winnable, key=lambda totals: (-totals.headroom_s, totals.name))[
            :count
        ]

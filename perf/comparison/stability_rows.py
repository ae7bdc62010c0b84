"""How far two runs of the same rows are apart, and what the harness took: the pure part of //perf:stability."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from tileops.perf.clock.samples import quantile
from tileops.perf.comparison import rows as compare_rows
from tileops.proto import benchmark_pb2

# What a distribution is told by.
FRACTIONS = (0.5, 0.9, 0.95, 0.99, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One row in two runs.

    Attributes:
      key: op, case and implementation.
      base_s, new_s: its median in either. Seconds.
    """

    key: compare_rows.Key
    base_s: float
    new_s: float

    @property
    def relative(self) -> float:
        """How far the medians are apart, as a fraction of the smaller one."""
        return abs(self.new_s - self.base_s) / min(self.base_s, self.new_s)


def differences(
    base: Mapping[compare_rows.Key, compare_rows.Measured],
    new: Mapping[compare_rows.Key, compare_rows.Measured],
    longer_than_s: float,
) -> list[Difference]:
    """Rows that both runs timed by one clock, both times above a length; the farthest apart first."""
    found = []
    for key, one in base.items():
        other = new.get(key)
        if other is None or one.time is None or other.time is None or one.time.source != other.time.source:
            continue
        if min(one.time.median_s, other.time.median_s) > longer_than_s:
            found.append(Difference(key=key, base_s=one.time.median_s, new_s=other.time.median_s))
    return sorted(found, key=lambda row: (-row.relative, row.key))


def quantiles(values: Iterable[float]) -> dict[float, float]:
    """The values at `FRACTIONS` of their order; empty where there is none."""
    ordered = sorted(values)
    return {fraction: quantile(ordered, fraction) for fraction in FRACTIONS} if ordered else {}


def share_within(rows: Sequence[Difference], limit: float) -> float | None:
    """The fraction of rows whose medians are at most `limit` apart; None where there is no row."""
    return sum(row.relative <= limit for row in rows) / len(rows) if rows else None


def harness_times(records: Iterable[benchmark_pb2.BenchmarkRecord]) -> dict[str, list[float]]:
    """What the harness took for each record that was run, by implementation and, under "", for all. Seconds."""
    found: dict[str, list[float]] = {"": []}
    for record in records:
        if record.HasField("harness_s"):
            found[""].append(record.harness_s)
            found.setdefault(record.implementation, []).append(record.harness_s)
    return found

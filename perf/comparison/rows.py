"""How each row changed between two runs of one device: the pure part of //perf:compare.

Medians are compared with their spread, the 10th to 90th percentile of the
samples. A row is SLOWER or FASTER if its median moved by more than the threshold and
the spreads do not meet; AMBIGUOUS if the median moved as far and the spreads meet; else
SAME. A run without percentiles has no spread.

A changed price (FLOPs, bytes or roof key: the formula or its key changed) is reported
apart: it changes efficiencies, but no time.
"""

import dataclasses
import enum
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tileops.perf.roof import measured_time
from tileops.proto import benchmark_pb2

_PRICE_FIELDS = ("flops", "bytes", "roof_key")
_NANOSECONDS_PER_SECOND = 1e9

# Relative error that the conversions of two times may leave: a change of exactly the
# threshold in nanoseconds is not beyond it.
_ROUNDING = 1e-12

Key = tuple[str, str, str]


class Verdict(enum.Enum):
    """How a row changed; the gravest first."""

    # Had a time, and now fails, is skipped or times out.
    LOST = "lost"
    SLOWER = "slower"
    AMBIGUOUS = "ambiguous"
    FASTER = "faster"
    # Has a time now, and had no time before.
    GAINED = "gained"
    VANISHED = "vanished"
    APPEARED = "appeared"
    SAME = "same"
    # Timed by two clocks, or in neither run.
    NOT_COMPARED = "not_compared"


# What makes a comparison fail.
REGRESSIONS = frozenset((Verdict.LOST, Verdict.SLOWER))


class Time(NamedTuple):
    """A measured time and its spread, excluded copies added back. Seconds."""

    median_s: float
    low_s: float
    high_s: float
    source: int


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The part of a record that a comparison needs.

    Attributes:
      family: The op's family.
      time: None if the record has no usable time.
      price: Its flops, bytes and roof key.
      message: Why it has no time, if the record says so.
    """

    family: str
    time: Time | None
    price: tuple[int, int, str]
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a comparison.

    Attributes:
      op, case_id, implementation: Which row it is.
      family: The op's family.
      verdict: How its time changed.
      base: Its time in the base run, if any.
      new: Its time in the new run, if any.
      price_changes: The old and the new value of each field of the price that changed.
      reason: Why it was lost or not compared; "" if the verdict says it all.
    """

    op: str
    case_id: str
    implementation: str
    family: str
    verdict: Verdict
    base: Time | None
    new: Time | None
    price_changes: Mapping[str, tuple[object, object]]
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """New time over base time; None unless both are there, by one clock.

        Also None if the ratio is beyond the range of floats.
        """
        if not self.base or not self.new or self.base.source != self.new.source:
            return None
        ratio = self.new.median_s / self.base.median_s
        return ratio if 0 < ratio < math.inf else None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class FamilyRatio:
    """The geometric mean of new time over base time in a family.

    Attributes:
      family: Its name.
      rows: Rows with a time by one clock in both runs.
      ratio: The mean; below 1 is faster.
    """

    family: str
    rows: int
    ratio: float


def measured(records: Iterable[benchmark_pb2.BenchmarkRecord]) -> dict[Key, Measured]:
    """Returns what was measured of each row; of several records the last one counts.

    `duplicates.records` yields at most one successful record of a row.
    """
    known = {}
    for record in records:
        time = _time(record)
        message = record.message
        if time is None:
            message = message or measured_time.defect(record)
        key = (sys.intern(record.op), record.case_id, sys.intern(record.implementation))
        known[key] = Measured(
            family=sys.intern(record.family),
            time=time,
            price=(record.flops, record.bytes, sys.intern(record.roof_key)),
            message=message,
        )
    return known


def compare(base: Mapping[Key, Measured], new: Mapping[Key, Measured], threshold: float) -> list[Row]:
    """Returns the row of every key of either run: regressions first, the worst on top.

    Args:
      base: The run to compare with.
      new: The run to judge.
      threshold: The change of a median that counts: 0.05 means 5% more time, or 1/1.05
        of it.
    """
    rows = [_row(key, base.get(key), new.get(key), threshold) for key in dict.fromkeys((*base, *new))]
    gravity = {verdict: place for place, verdict in enumerate(Verdict)}
    rows.sort(
        key=lambda row: (
            gravity[row.verdict],
            -round(abs(math.log(row.ratio)), 6) if row.ratio else 0.0,
            row.op,
            row.case_id,
            row.implementation,
        )
    )
    return rows


def families(rows: Iterable[Row]) -> list[FamilyRatio]:
    """Returns the mean change of each family, by name."""
    logs: dict[str, list[float]] = {}
    for row in rows:
        if row.ratio is not None:
            logs.setdefault(row.family, []).append(math.log(row.ratio))
    return [
        FamilyRatio(family=family, rows=len(each), ratio=_geometric_mean(each)) for family, each in sorted(logs.items())
    ]


def overall(rows: Iterable[Row]) -> float | None:
    """Returns the mean change of all rows; None if no row was compared."""
    logs = [math.log(row.ratio) for row in rows if row.ratio is not None]
    return _geometric_mean(logs) if logs else None


def counts(rows: Iterable[Row]) -> dict[str, int]:
    """Returns how many rows have each verdict, and how many a changed price."""
    counted = {verdict.value: 0 for verdict in Verdict}
    counted["price_changed"] = 0
    for row in rows:
        counted[row.verdict.value] += 1
        counted["price_changed"] += bool(row.price_changes)
    return counted


def has_regression(rows: Iterable[Row]) -> bool:
    """Returns whether a row became slower beyond the threshold, or lost its time."""
    return any(row.verdict in REGRESSIONS for row in rows)


def has_nothing_left(rows: Iterable[Row]) -> bool:
    """Returns whether the base run has rows, and the new run no row of the base run."""
    verdicts = {row.verdict for row in rows}
    return Verdict.VANISHED in verdicts <= {Verdict.VANISHED, Verdict.APPEARED}


def _row(key: Key, base: Measured | None, new: Measured | None, threshold: float) -> Row:
    op, case_id, implementation = key
    present = new or base
    assert present is not None  # a key is one of either run
    verdict, reason = _verdict(base, new, threshold)
    return Row(
        op=op,
        case_id=case_id,
        implementation=implementation,
        family=present.family,
        verdict=verdict,
        base=base.time if base else None,
        new=new.time if new else None,
        price_changes=_price_changes(base, new) if base and new else {},
        reason=reason,
    )


def _verdict(base: Measured | None, new: Measured | None, threshold: float) -> tuple[Verdict, str]:
    if new is None:
        return Verdict.VANISHED, ""
    if base is None:
        return Verdict.APPEARED, new.message
    if base.time is None and new.time is None:
        return Verdict.NOT_COMPARED, new.message or "no time in either run"
    if new.time is None:
        return Verdict.LOST, new.message or "no time any more"
    if base.time is None:
        return Verdict.GAINED, base.message
    if base.time.source != new.time.source:
        names = [clock_name(time.source) for time in (base.time, new.time)]
        return Verdict.NOT_COMPARED, f"timed by {names[0]}, then by {names[1]}"
    return judge(base.time, new.time, threshold), ""


def judge(base: Time, new: Time, threshold: float) -> Verdict:
    """Returns how a time changed by one clock: SAME, FASTER, SLOWER or AMBIGUOUS."""
    most = base.median_s * (1 + threshold) * (1 + _ROUNDING)
    least = base.median_s / (1 + threshold) / (1 + _ROUNDING)
    if least <= new.median_s <= most:
        return Verdict.SAME
    if new.low_s <= base.high_s and base.low_s <= new.high_s:
        return Verdict.AMBIGUOUS
    return Verdict.SLOWER if new.median_s > base.median_s else Verdict.FASTER


def clock_name(source: int) -> str:
    """Returns a timing source in words; one of a newer schema has only its number."""
    if source not in benchmark_pb2.TimingSource.values():
        return f"clock {source}"
    return benchmark_pb2.TimingSource.Name(source).removeprefix("TIMING_SOURCE_")


def _time(record: benchmark_pb2.BenchmarkRecord) -> Time | None:
    median_s = measured_time.actual_time(record)
    if median_s is None:
        return None
    timing = record.timing
    ends = []
    for field in ("device_busy_p10_ns", "device_busy_p90_ns"):
        end_ns = getattr(timing, field) + timing.excluded_copy_ns
        known = timing.HasField(field) and math.isfinite(end_ns)
        ends.append(end_ns / _NANOSECONDS_PER_SECOND if known else median_s)
    return Time(median_s, min(ends[0], median_s), max(ends[1], median_s), timing.source)


def _price_changes(base: Measured, new: Measured) -> dict[str, tuple[object, object]]:
    return {field: (old, today) for field, old, today in zip(_PRICE_FIELDS, base.price, new.price) if old != today}


def _geometric_mean(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))

"""How repeatable the bench is by two runs: whether they measured the same, how far they are apart, what the harness took.

The pure part of //perf:stability.
"""

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence

from tileops.perf.clock.samples import quantile
from tileops.perf.comparison import rows as compare_rows
from tileops.perf.runs import headers
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors

# The quantiles that describe a distribution.
FRACTIONS = (0.5, 0.9, 0.95, 0.99, 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One row in two runs.

    Attributes:
      key: Op, case and implementation.
      base_s, new_s: Its median in each run. Seconds.
    """

    key: compare_rows.Key
    base_s: float
    new_s: float

    @property
    def relative(self) -> float:
        """Returns how far the medians are apart, as a fraction of the smaller one."""
        return abs(self.new_s - self.base_s) / min(self.base_s, self.new_s)


def differences(
    base: Mapping[compare_rows.Key, compare_rows.Measured],
    new: Mapping[compare_rows.Key, compare_rows.Measured],
    longer_than_s: float,
) -> list[Difference]:
    """Returns the rows that both runs timed by one clock and whose times exceed a length; the farthest apart first."""
    found = []
    for key, one in base.items():
        other = new.get(key)
        if other is None or one.time is None or other.time is None or one.time.source != other.time.source:
            continue
        if min(one.time.median_s, other.time.median_s) > longer_than_s:
            found.append(Difference(key=key, base_s=one.time.median_s, new_s=other.time.median_s))
    return sorted(found, key=lambda row: (-row.relative, row.key))


def quantiles(values: Iterable[float]) -> dict[float, float]:
    """Returns the quantiles at `FRACTIONS`; empty without values."""
    ordered = sorted(values)
    return {fraction: quantile(ordered, fraction) for fraction in FRACTIONS} if ordered else {}


def share_within(rows: Sequence[Difference], limit: float) -> float | None:
    """Returns the fraction of rows whose medians are at most `limit` apart; None without rows."""
    return sum(row.relative <= limit for row in rows) / len(rows) if rows else None


def harness_times(records: Iterable[benchmark_pb2.BenchmarkRecord]) -> dict[str, list[float]]:
    """Returns the harness time of each record that was run, by implementation, and of all under "". Seconds."""
    found: dict[str, list[float]] = {"": []}
    for record in records:
        if record.HasField("harness_s"):
            found[""].append(record.harness_s)
            found.setdefault(record.implementation, []).append(record.harness_s)
    return found


class OneRunError(errors.UserError):
    """One run, named twice; the message says how that is known."""


def refuse_one_run(base: runfile.RunReader, new: runfile.RunReader) -> None:
    """Raises OneRunError if both are one run: one file, one run id, or equal records in every digit."""
    how = None
    if base.path.is_file() and base.path.samefile(new.path):
        how = "one file"
    elif base.header.run_id and base.header.run_id == new.header.run_id:
        how = f"of one run, {base.header.run_id}"
    elif _digest(base) == _digest(new):
        how = "the same in every digit"
    if how is not None:
        raise OneRunError(f"{base.path} and {new.path} are {how}: name two different runs")


def unlike(
    base: runfile.RunReader,
    new: runfile.RunReader,
    base_known: Mapping[compare_rows.Key, compare_rows.Measured],
    new_known: Mapping[compare_rows.Key, compare_rows.Measured],
) -> list[str]:
    """Returns why the times of two runs do not show how repeatable the bench is, in words.

    Args:
      base, new: The runs.
      base_known, new_known: What they measured.
    """
    ours, theirs = base.header.environment, new.header.environment
    found = [
        f"{name} is {one!r} in {base.path.name} and {other!r} in {new.path.name}"
        for name, one, other in headers.differing_fields(ours, theirs, headers.MACHINE_FIELDS)
    ]
    plugins = headers.plugin_difference(base.header, new.header)
    if plugins is not None:
        found.append(plugins)
    for reader, known in ((base, base_known), (new, new_known)):
        clocks = {row.time.source for row in known.values() if row.time is not None}
        names = sorted(compare_rows.clock_name(clock).lower() for clock in clocks - {benchmark_pb2.TIMING_SOURCE_CUPTI})
        if names:
            told = f"{reader.path.name} has times of the clock {', '.join(names)}"
            found.append(f"{told}, which are not device-busy times")
    return found


def unknown(base: runfile.RunReader, new: runfile.RunReader) -> list[str]:
    """Returns why the sources of the two runs may have differed, in words."""
    found = []
    for reader in (base, new):
        environment = reader.header.environment
        if environment.project_dirty or not environment.project_revision:
            what = "differed from the revision" if environment.project_dirty else "have no known revision"
            found.append(f"the sources of {reader.path.name} {what}: they may differ from those of the other run")
    return found


def _digest(reader: runfile.RunReader) -> bytes:
    found = hashlib.sha256()
    for record in reader.records():
        found.update(record.SerializeToString(deterministic=True))
    return found.digest()

"""Libraries against our implementations, row by row, within one run: the pure part of //perf:league.

An example, one case of a run, times in us: `torch` 40, `triton` 30 (our default), `liger` 27, `quack` wrong. Liger takes 0.9
of our default's time, is the fastest, and is over 2% faster than our default. QuACK serves the case and is wrong there.

A ratio of times of two runs would compare two machines or two days. So all times of a case are of one run: the newest in
which both a library and our default ran it, else the newest in which a library did, else the newest in which our default did.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable, Sequence

from tileops.perf.report import facts as report_facts
from tileops.perf.report import runs
from tileops.perf.roof import measured_time, pricing, profiles
from tileops.perf.runs import duplicates as run_duplicates
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2, roofline_pb2

# A time counts as shorter than our default's if it is so by more than this share.
CLEARLY = 0.02
# Relative error that the conversions of two times may leave: a time of exactly 2% less is not over 2% less.
_ROUNDING = 1e-12

Case = tuple[str, str]


class Outcome(enum.Enum):
    """What became of an implementation on a case."""

    TIMED = "timed"
    # Its result was compared with the reference's and differs.
    WRONG = "wrong"
    # It raised, hung or could not be timed.
    FAILED = "failed"
    # Its time is shorter than the hardware allows, so the row's formula counts too much.
    IMPOSSIBLE = "impossible"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Entrant:
    """One implementation on a case.

    Attributes:
      implementation: Its name.
      library: The library that it belongs to; "" for ours.
      outcome: What became of it.
      time_s: Its time; None unless it was timed. Seconds.
      efficiency: Of this time; None if it cannot be priced.
      clock: A number of `benchmark_pb2.TimingSource`.
      is_default: Whether a call that names no implementation takes it.
      message: Why it has no time.
    """

    implementation: str
    library: str
    outcome: Outcome
    time_s: float | None
    efficiency: float | None
    clock: int
    is_default: bool
    message: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A case with all its implementations in one run.

    Attributes:
      op, family, case_id: Which case.
      run: Which of the runs its times are of. An index from 0.
      entrants: Its implementations, as recorded.
    """

    op: str
    family: str
    case_id: str
    run: int
    entrants: tuple[Entrant, ...]

    @property
    def default(self) -> Entrant | None:
        """Returns our default if it was timed; None if the run does not say which it is, or it has no time."""
        return next((each for each in self.entrants if each.is_default and each.time_s is not None), None)

    @property
    def fastest(self) -> Entrant | None:
        """Returns the implementation with the least time; of equal times ours, and first our default."""
        timed = [each for each in self.entrants if each.time_s is not None]
        return min(timed, key=lambda each: (each.time_s, bool(each.library), not each.is_default), default=None)

    def ratio(self, entrant: Entrant) -> float | None:
        """Returns the implementation's time over that of our default, by one clock; None if one of them has none."""
        default = self.default
        if default is None or default.time_s is None or entrant.time_s is None or default.clock != entrant.clock:
            return None
        return entrant.time_s / default.time_s

    @property
    def is_won(self) -> bool:
        """Returns whether an implementation is faster than our default by more than `CLEARLY`."""
        ratio = None if self.fastest is None else self.ratio(self.fastest)
        return ratio is not None and ratio < (1 - CLEARLY) * (1 - _ROUNDING)

    def of(self, library: str) -> Entrant | None:
        """Returns a library's implementation: its fastest, or if none was timed its first; None if it serves no call."""
        its = [each for each in self.entrants if each.library == library]
        return min(its, key=lambda each: math.inf if each.time_s is None else each.time_s, default=None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standing:
    """How a library fared over all rows.

    Attributes:
      library: Its name.
      versions: Its versions in the runs that the rows are of, as in `liger-kernel 0.8.5`.
      rows: Rows that it serves.
      wrong, failed, impossible: Rows of these without a time of the library, by `Outcome`.
      compared: Rows with a time of the library and of our default.
      ratio: Geometric mean over these of its time to our default's; None without any. Below 1 it is faster.
      won: Rows of these where it is faster than our default by more than `CLEARLY`.
      fastest: Rows where nothing is faster.
    """

    library: str
    versions: tuple[str, ...]
    rows: int
    wrong: int
    failed: int
    impossible: int
    compared: int
    ratio: float | None
    won: int
    fastest: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class League:
    """Libraries and rows.

    Attributes:
      runs: The runs, in the order given.
      libraries: The names of the libraries that have a record, by name.
      skipped: Libraries that a run skipped and that have no record, each with the reason.
      rows: All cases with a library's record or a default, by family and op as recorded.
    """

    runs: tuple[roofline_pb2.RunSummary, ...]
    libraries: tuple[str, ...]
    skipped: dict[str, str]
    rows: tuple[Row, ...]

    def served(self) -> list[Row]:
        """Returns the rows that a library serves."""
        return [row for row in self.rows if any(each.library for each in row.entrants)]

    def won(self) -> list[Row]:
        """Returns the rows where an implementation clearly beats our default, the largest gain first."""
        found = [(row.ratio(row.fastest) or 0.0, row) for row in self.rows if row.is_won and row.fastest is not None]
        return [row for _, row in sorted(found, key=lambda each: (each[0], each[1].op, each[1].case_id))]

    def standings(self) -> list[Standing]:
        """Returns the standing of each library: the least mean ratio first, those without a ratio last."""
        found = [self._standing(library) for library in self.libraries]
        return sorted(found, key=lambda each: (math.inf if each.ratio is None else each.ratio, each.library))

    def ours_fastest(self) -> int:
        """Returns the number of rows that a library serves and where one of our implementations is the fastest."""
        return sum(row.fastest is not None and not row.fastest.library for row in self.served())

    def _standing(self, library: str) -> Standing:
        its = [(row, entrant) for row in self.rows if (entrant := row.of(library)) is not None]
        ratios = [ratio for row, entrant in its if (ratio := row.ratio(entrant)) is not None]
        outcomes = [entrant.outcome for _, entrant in its]
        named = {
            f"{each.package} {each.version}"
            for row, _ in its
            for each in self.runs[row.run].baselines
            if each.library == library
        }
        return Standing(
            library=library,
            versions=tuple(sorted(named)),
            rows=len(its),
            wrong=outcomes.count(Outcome.WRONG),
            failed=outcomes.count(Outcome.FAILED),
            impossible=outcomes.count(Outcome.IMPOSSIBLE),
            compared=len(ratios),
            ratio=math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None,
            won=sum(ratio < (1 - CLEARLY) * (1 - _ROUNDING) for ratio in ratios),
            fastest=sum(row.fastest is not None and row.fastest.library == library for row, _ in its),
        )


def collect(
    readers: Sequence[runfile.RunReader],
    summarize: Sequence[report_facts.RunFacts],
    selection: runs.Selection,
    profile: profiles.Profile | None,
    duplicates: str | None = None,
) -> League:
    """Reads runs of one device and returns their league.

    Args:
      readers: The runs, one or more.
      summarize: Gathers the facts of each run.
      selection: Which ops, families and libraries; no library, or `ALL`, is every library.
      profile: The profile that prices the times; None if no profile has the device.
      duplicates: One of `duplicates.CHOICES`; None to refuse a run file that has a row twice.

    Raises:
      runs.MixedDevicesError: The runs are of several devices.
      runs.NothingSelectedError: There is a filter, and nothing passes it.
      duplicates.DuplicateError: A file has two successful records of one row.
    """
    runs.device_name(readers, profile)
    places = {id(reader): place for place, reader in enumerate(readers)}
    names = runs.Names()
    chosen: dict[Case, Row] = {}
    for reader in runs.oldest_first(readers):
        place = places[id(reader)]
        found: dict[Case, dict[str, Entrant]] = {}
        families: dict[Case, str] = {}
        for record in run_duplicates.records(reader, duplicates):
            summarize[place].add(record)
            names.add(record)
            wanted = not selection.libraries or selection.is_choice(record)
            if not wanted or not selection.admits(record) or not record.implementation:
                continue
            case = (record.op, record.case_id)
            families[case] = record.family
            entrant = _entrant(record, profile)
            if entrant is None:
                found.get(case, {}).pop(record.implementation, None)  # a later record says that it is not served
            else:
                found.setdefault(case, {})[record.implementation] = entrant
        for case, entrants in found.items():
            row = Row(op=case[0], case_id=case[1], family=families[case], run=place, entrants=tuple(entrants.values()))
            if _rank(row) >= _rank(chosen.get(case)):
                chosen[case] = row
    names.refuse_unknown_libraries(selection)
    if not chosen:
        names.refuse_empty(selection)
    rows = tuple(row for row in chosen.values() if _rank(row))
    libraries = sorted({each.library for row in rows for each in row.entrants if each.library})
    summaries = tuple(facts.summary() for facts in summarize)
    return League(
        runs=summaries, libraries=tuple(libraries), skipped=_skipped(summaries, libraries, selection), rows=rows
    )


def _rank(row: Row | None) -> int:
    """Returns which run's row of a case is chosen: the largest."""
    if row is None:
        return -1
    return 2 * any(each.library for each in row.entrants) + (row.default is not None)


def _skipped(
    summaries: Iterable[roofline_pb2.RunSummary], libraries: Sequence[str], selection: runs.Selection
) -> dict[str, str]:
    return {
        each.library: each.skipped
        for run in summaries
        for each in run.baselines
        if each.skipped
        and each.library not in libraries
        and (not selection.libraries or {runs.ALL, each.library} & set(selection.libraries))
    }


def _entrant(record: benchmark_pb2.BenchmarkRecord, profile: profiles.Profile | None) -> Entrant | None:
    """Returns what a record says of its implementation; None if it was not run."""
    if record.status == benchmark_pb2.STATUS_SKIPPED:
        return None
    readings = pricing.read(record, profile)
    time_s, message = readings.actual_time_s, record.message or measured_time.defect(record)
    outcome = Outcome.TIMED
    if time_s is None:
        # Only a result that was compared has `checked` and a reason.
        is_wrong = record.correctness.checked and bool(record.correctness.reason)
        outcome = Outcome.WRONG if is_wrong else Outcome.FAILED
    elif readings.verdict == roofline_pb2.VERDICT_FORMULA_ERROR:
        breach = readings.breaches[0]
        outcome, time_s = Outcome.IMPOSSIBLE, None
        message = f"faster than the theoretical ceiling of {breach.roof}"
    return Entrant(
        implementation=record.implementation,
        library=record.library,
        outcome=outcome,
        time_s=time_s,
        efficiency=readings.efficiency if time_s is not None else None,
        clock=record.timing.source,
        is_default=record.is_default,
        message=message if time_s is None else "",
    )

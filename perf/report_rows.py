"""From run files and a profile to the rows of a report: selection and summary."""

import dataclasses
import fnmatch
import math
import pathlib
from collections.abc import Callable, Iterable, Sequence

from google.protobuf import descriptor

from tileops.perf import paths
from tileops.perf import pricing
from tileops.perf import profiles
from tileops.perf import runfile
from tileops.proto import benchmark_pb2
from tileops.proto import roofline_pb2

# Values of `Selection.implementation` that name no implementation.
BEST = "best"
ALL = "all"


class MixedDevicesError(Exception):
    """Runs of several devices, which cannot be read as one report."""


class NothingSelectedError(Exception):
    """A filter that no record passes; the message lists what there is."""


class NoRecordedRunsError(Exception):
    """The user names no run, and the project has none recorded."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Which records a report is about.

    Attributes:
      ops: Globs of op names; a record passes if one matches, or if there is none.
      families: The same, of families.
      implementation: `BEST`, `ALL`, or the name of one.
    """

    ops: Sequence[str] = ()
    families: Sequence[str] = ()
    implementation: str = BEST

    def admits(self, record: benchmark_pb2.BenchmarkRecord) -> bool:
        """Whether the record passes, all implementations counting for BEST."""
        return (
            _matches(record.op, self.ops)
            and _matches(record.family, self.families)
            and self.implementation in (BEST, ALL, record.implementation)
        )


@dataclasses.dataclass
class Runs:
    """The newest record of each case and implementation, out of several runs.

    Attributes:
      summaries: One for each file, in the order given.
      newest: The records, by (op, case_id, implementation).
    """

    summaries: list[roofline_pb2.RunSummary]
    newest: dict[tuple[str, str, str], benchmark_pb2.BenchmarkRecord]

    @property
    def device_name(self) -> str:
        """The device that was measured; empty where no run says so."""
        return self.summaries[0].device_name


def run_paths(named: Sequence[str]) -> list[pathlib.Path]:
    """Returns the runs that a user named; every recorded H200 run if none.

    Raises:
      NoRecordedRunsError: Nothing was named and nothing is recorded.
    """
    if named:
        return [paths.user_path(run) for run in named]
    try:
        folder = paths.data_path("perf", "recorded", "h200")
    except FileNotFoundError as error:
        raise NoRecordedRunsError(f"no recorded runs to read: {error}") from error
    found = sorted([*folder.glob("*.binpb"), *folder.glob("*.jsonl")])
    if not found:
        raise NoRecordedRunsError(f"no recorded runs in {folder}; name one with --run")
    return found


def newest_run(readers: Sequence[runfile.RunReader]) -> runfile.RunReader:
    """Returns the run that began last; of equals, the last one given."""
    return sorted(readers, key=_started_at)[-1]


def read_runs(readers: Iterable[runfile.RunReader], selection: Selection) -> Runs:
    """Reads runs of one device; a later start, or a later place, is newer.

    Raises:
      MixedDevicesError: The runs are of several devices.
      NothingSelectedError: There is a filter, and nothing passes it.
      runfile.RunFileError: A file cannot be read.
    """
    # sorted() is stable: runs of one time count in the order given.
    given = list(readers)
    _refuse_mixed_devices(given)
    newest = {}
    summaries = {}
    seen = _Names()
    for reader in sorted(given, key=_started_at):
        records = 0
        for record in reader.records():
            records += 1
            seen.add(record)
            if selection.admits(record):
                newest[record.op, record.case_id, record.implementation] = record
        summaries[id(reader)] = _summary_of_run(reader, records)
    if not newest:
        seen.refuse_empty(selection)
    return Runs([summaries[id(reader)] for reader in given], newest)


def priced_rows(
    runs: Runs, selection: Selection, profile: profiles.Profile | None
) -> list[roofline_pb2.Row]:
    """Prices the selected records against the profile.

    With `BEST`, one row a case, and beside it every row that is a formula error:
    an impossible time is reported, and is never the fastest.
    """
    rows = [
        (record, pricing.price(record, profile)) for record in runs.newest.values()
    ]
    if selection.implementation != BEST:
        return [row for _, row in rows]
    best: dict[tuple[str, str], tuple[tuple, roofline_pb2.Row]] = {}
    impossible = []
    for record, row in rows:
        if row.verdict == roofline_pb2.VERDICT_FORMULA_ERROR:
            impossible.append(row)
            continue
        rank = _rank(record)
        case = (record.op, record.case_id)
        if case not in best or rank < best[case][0]:
            best[case] = (rank, row)
    return [row for _, row in best.values()] + impossible


def predicted_rows(
    runs: Runs, selection: Selection, profile: profiles.Profile
) -> list[roofline_pb2.Row]:
    """Returns each selected record's bound on the profile's device.

    With `BEST`, one row a case, of no implementation: the bound is the
    algorithm's.
    """
    rows = {}
    for record in runs.newest.values():
        row = pricing.predict(record, profile)
        row.ClearField("message")
        if selection.implementation == BEST:
            row.ClearField("implementation")
        key = (row.op, row.case_id, row.implementation)
        # A record that failed before it was priced must not hide one that was.
        if key not in rows or row.HasField("sol_time_s"):
            rows[key] = row
    return list(rows.values())


# Keys for `sort_rows`, by the names that a user gives; each has the most
# interesting rows first, and rows without the reading last.
SORT_KEYS: dict[str, Callable[[roofline_pb2.Row], tuple]] = {
    "headroom": lambda row: _descending(row, "headroom_s"),
    "time": lambda row: _descending(row, "actual_time_s"),
    "efficiency": lambda row: _ascending(row, "efficiency"),
    "op": lambda row: (),
}


def sort_rows(rows: list[roofline_pb2.Row], key: str) -> None:
    """Sorts rows in place by one of `SORT_KEYS`, then by op, case and time.

    Rows without headroom are ordered by SOL time, so that predictions, too, have
    the largest rows first.
    """
    reading = SORT_KEYS[key]
    rows.sort(
        key=lambda row: (
            reading(row),
            () if key == "op" else _descending(row, "sol_time_s"),
            row.op,
            row.case_id,
            _ascending(row, "actual_time_s"),
            row.implementation,
        )
    )


def summarize(rows: Iterable[roofline_pb2.Row]) -> roofline_pb2.Summary:
    """Counts rows by verdict."""
    summary = roofline_pb2.Summary()
    for row in rows:
        name = enum_name(row, "verdict")
        setattr(summary, name, getattr(summary, name) + 1)
        summary.rows += 1
    return summary


def health(summary: roofline_pb2.Summary) -> int:
    """Returns the `Health` of a report: failed if a row is a formula error."""
    if summary.formula_error:
        return roofline_pb2.HEALTH_FAILED
    return roofline_pb2.HEALTH_OK


def enum_name(message, field: str) -> str | None:
    """Returns an enum field's value as reports write it.

    In lower case and without the enum's prefix: VERDICT_AT_CEILING is
    "at_ceiling". None where the field is unspecified.
    """
    value = getattr(message, field)
    if value == 0:
        return None
    enum: descriptor.EnumDescriptor = message.DESCRIPTOR.fields_by_name[field].enum_type
    prefix = enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
    return enum.values_by_number[value].name.removeprefix(prefix).lower()


class _Names:
    """The names in the records read, for a user whose filter has none of them."""

    def __init__(self):
        self._of_flag: dict[str, set[str]] = {
            "op": set(),
            "family": set(),
            "implementation": set(),
        }

    def add(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        for flag, names in self._of_flag.items():
            names.add(getattr(record, flag))

    def refuse_empty(self, selection: Selection) -> None:
        """Raises NothingSelectedError if there is a filter.

        The message lists the names that the first flag without a match could have
        had; where each flag alone has one, those of them all.
        """
        asked = {"op": selection.ops, "family": selection.families}
        if selection.implementation not in (BEST, ALL):
            asked["implementation"] = [selection.implementation]
        asked = {flag: globs for flag, globs in asked.items() if globs}
        if not asked:
            return
        for flag, globs in asked.items():
            if not any(_matches(name, globs) for name in self._of_flag[flag]):
                asked = {flag: globs}
                break
        flags = " ".join(f"--{flag}={','.join(globs)}" for flag, globs in asked.items())
        there = "; ".join(
            f"{flag}: {', '.join(sorted(self._of_flag[flag])) or 'none'}"
            for flag in asked
        )
        raise NothingSelectedError(f"no record passes {flags}; there are {there}")


def counted(count: int, noun: str) -> str:
    """Returns a count with its noun, whose plural takes an s: "1 row", "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def printable(text: str) -> str:
    """Returns a text in which nothing steers a terminal: ESC is shown as \\x1b."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in text
    )


def _matches(name: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _rank(record: benchmark_pb2.BenchmarkRecord) -> tuple:
    """Orders the records of a case: the fastest correct one is the smallest.

    A time by CUPTI goes before one by another clock; of records without a time,
    one that says why it has none goes before a silent one.
    """
    time_s = pricing.actual_time(record)
    by_cupti = record.timing.source == benchmark_pb2.TIMING_SOURCE_CUPTI
    return (
        time_s is None,
        not by_cupti,
        time_s or 0.0,
        record.status != benchmark_pb2.STATUS_OK,
        not record.message,
        record.implementation,
    )


def _descending(row: roofline_pb2.Row, field: str) -> tuple[float]:
    return (-getattr(row, field) if row.HasField(field) else math.inf,)


def _ascending(row: roofline_pb2.Row, field: str) -> tuple[float]:
    return (getattr(row, field) if row.HasField(field) else math.inf,)


def _started_at(reader: runfile.RunReader) -> tuple[int, int]:
    started = reader.header.started_at
    return started.seconds, started.nanos


def _refuse_mixed_devices(readers: Iterable[runfile.RunReader]) -> None:
    devices = {}
    for reader in readers:
        name = reader.header.environment.device_name
        devices.setdefault(" ".join(name.split()).casefold(), (name, reader.path))
    if len(devices) > 1:
        (name_a, path_a), (name_b, path_b) = list(devices.values())[:2]
        raise MixedDevicesError(
            f"runs of several devices cannot be read as one: {path_a} is of"
            f" {name_a!r}, {path_b} of {name_b!r}"
        )


def _summary_of_run(
    reader: runfile.RunReader, records: int
) -> roofline_pb2.RunSummary:
    header = reader.header
    environment = header.environment
    summary = roofline_pb2.RunSummary(
        file=reader.path.name,
        run_id=header.run_id,
        records=records,
        interrupted=reader.footer is None,
        problems=[str(problem) for problem in reader.problems],
    )
    if header.HasField("started_at"):
        summary.started_at = header.started_at.ToJsonString()
    for field in environment.DESCRIPTOR.fields:
        if field.name in summary.DESCRIPTOR.fields_by_name:
            setattr(summary, field.name, getattr(environment, field.name))
    return summary

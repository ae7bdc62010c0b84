"""Which runs and which of their records a report is of, and what it says of them."""

import dataclasses
import fnmatch
import pathlib
from collections.abc import Iterable, Sequence

from tileops.perf import paths
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
            self.implementation in (BEST, ALL, record.implementation)
            and (not self.ops or _matches(record.op, self.ops))
            and (not self.families or _matches(record.family, self.families))
        )


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


def device_name(readers: Sequence[runfile.RunReader]) -> str:
    """Returns the device that the runs measured; empty where they name none.

    Raises:
      MixedDevicesError: The runs are of several devices.
    """
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
    return readers[0].header.environment.device_name


def oldest_first(readers: Iterable[runfile.RunReader]) -> list[runfile.RunReader]:
    """Returns the runs in the order of their start; of equals, as they were given."""
    return sorted(readers, key=_started_at)


def newest_records(
    readers: Sequence[runfile.RunReader],
) -> list[benchmark_pb2.BenchmarkRecord]:
    """Returns the newest record of each case and implementation.

    Raises:
      MixedDevicesError: The runs are of several devices.
      runfile.RunFileError: A file cannot be read.
    """
    device_name(readers)
    newest = {}
    for reader in oldest_first(readers):
        for record in reader.records():
            newest[record.op, record.case_id, record.implementation] = record
    return list(newest.values())


class Names:
    """The names in the records read, for a user whose filter has none of them."""

    def __init__(self):
        self._of_flag: dict[str, set[str]] = {
            "op": set(),
            "family": set(),
            "implementation": set(),
        }

    def add(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        """Takes note of a record's names."""
        self._of_flag["op"].add(record.op)
        self._of_flag["family"].add(record.family)
        self._of_flag["implementation"].add(record.implementation)

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


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, glob) for glob in globs)


def _started_at(reader: runfile.RunReader) -> tuple[int, int]:
    started = reader.header.started_at
    return started.seconds, started.nanos


class RunFacts:
    """What a report says of one run, gathered while its records go by."""

    def __init__(self, reader: runfile.RunReader):
        self._reader = reader
        self._records = 0
        self._throttled = 0
        self._sm_clocks = _Range()
        self._memory_clocks = _Range()

    def add(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        """Takes note of a record."""
        self._records += 1
        if not record.HasField("device_state"):
            return
        state = record.device_state
        for reading in (state.start, state.end):
            if reading.HasField("sm_clock_mhz"):
                self._sm_clocks.add(reading.sm_clock_mhz)
            if reading.HasField("memory_clock_mhz"):
                self._memory_clocks.add(reading.memory_clock_mhz)
        if state.start.throttle_reasons or state.end.throttle_reasons:
            self._throttled += 1

    def summary(self) -> roofline_pb2.RunSummary:
        """Returns what is to be said, once the run was read to its end."""
        reader = self._reader
        header = reader.header
        summary = roofline_pb2.RunSummary(
            file=reader.path.name,
            run_id=header.run_id,
            records=self._records,
            interrupted=reader.footer is None,
            problems=[str(problem) for problem in reader.problems],
            command_line=header.command_line,
            throttled_records=self._throttled,
        )
        if header.HasField("started_at"):
            summary.started_at = header.started_at.ToJsonString()
        self._sm_clocks.fill(summary, "sm_clock")
        self._memory_clocks.fill(summary, "memory_clock")
        for field in header.environment.DESCRIPTOR.fields:
            if field.name in summary.DESCRIPTOR.fields_by_name:
                setattr(summary, field.name, getattr(header.environment, field.name))
        return summary


class _Range:
    """The least and the largest of some clock readings, in MHz."""

    def __init__(self):
        self._values: set[int] = set()

    def add(self, mhz: int) -> None:
        self._values.add(mhz)

    def fill(self, summary: roofline_pb2.RunSummary, name: str) -> None:
        if self._values:
            setattr(summary, f"{name}_min_mhz", min(self._values))
            setattr(summary, f"{name}_max_mhz", max(self._values))

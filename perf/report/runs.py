"""Which runs a report reads, in which order, and which of their records."""

import dataclasses
import pathlib
from collections.abc import Iterable, Sequence

from tileops.perf.roof import profiles
from tileops.perf.runs import duplicates as run_duplicates
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors, globs, nearest, paths

# Values of `Selection.implementation` that name no implementation.
BEST = "best"
ALL = "all"


class MixedDevicesError(errors.UserError):
    """Runs of several devices, which cannot make one report."""


class NothingSelectedError(errors.UserError):
    """No record to report: a filter that no record passes, or runs without records."""


class NoRecordedRunsError(errors.UserError):
    """The user names no run, and the project has no recorded run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Which records a report is about.

    Attributes:
      ops: Globs of op names; a record passes if one matches, or without globs.
      families: The same, of families.
      implementation: `BEST`, `ALL`, or the name of one.
      libraries: Libraries among which `BEST` chooses too, or `ALL`.
      listed_by: The command that lists the records that there are, for messages.
    """

    ops: Sequence[str] = ()
    families: Sequence[str] = ()
    implementation: str = BEST
    libraries: Sequence[str] = ()
    listed_by: str = ""

    @property
    def is_filter(self) -> bool:
        """Returns whether some records may not pass."""
        return bool(self.ops or self.families or self.libraries or self.implementation not in (BEST, ALL))

    def admits(self, record: benchmark_pb2.BenchmarkRecord) -> bool:
        """Returns whether the record passes; for BEST every implementation does."""
        return (
            self.implementation in (BEST, ALL, record.implementation)
            and globs.fits(record.op, *self.ops)
            and globs.fits(record.family, *self.families)
        )

    def is_choice(self, record: benchmark_pb2.BenchmarkRecord) -> bool:
        """Returns whether BEST may choose the record: not if it is one of a library that the user did not name."""
        return not record.library or ALL in self.libraries or record.library in self.libraries


def run_paths(named: Sequence[str]) -> list[pathlib.Path]:
    """Returns the runs that a user named; if there are none, every recorded H200 run.

    A file that is named twice, even under two names, is one run.

    Raises:
      NoRecordedRunsError: Nothing was named and nothing is recorded.
    """
    if named:
        files: dict[pathlib.Path, pathlib.Path] = {}
        for file in map(paths.user_path, named):
            files.setdefault(file.resolve(), file)
        return list(files.values())
    try:
        folder = paths.data_path("perf", "recorded", "h200")
    except FileNotFoundError as error:
        raise NoRecordedRunsError(f"no recorded runs to read: {error}") from error
    found = sorted([*folder.glob("*.binpb"), *folder.glob("*.jsonl")])
    if not found:
        raise NoRecordedRunsError(f"no recorded runs in {folder}; name one with --run")
    return found


def lacks_device(reader: runfile.RunReader) -> bool:
    """Returns whether a run does not say what it measured, because its header was lost."""
    return not reader.header.HasField("environment")


def device_name(readers: Sequence[runfile.RunReader], profile: profiles.Profile | None = None) -> str:
    """Returns the device that the runs measured; "" if they do not name it.

    Runs without a header do not count. Names of one profile, `profile` or one of the
    project's own, are one device.

    Raises:
      MixedDevicesError: The runs are of several devices.
    """
    devices: dict[str, tuple[str, pathlib.Path]] = {}
    for reader in readers:
        if not lacks_device(reader):
            name = reader.header.environment.device_name
            devices.setdefault(" ".join(name.split()).casefold(), (name, reader.path))
    named = list(devices.values())
    if len(named) > 1 and not _are_one_model([name for name, _ in named], profile):
        (name_a, path_a), (name_b, path_b) = named[:2]
        raise MixedDevicesError(
            f"runs of several devices cannot make one report: {path_a} {_measured(name_a)}, {path_b} {_measured(name_b)}"
        )
    return named[0][0] if named else ""


def _measured(name: str) -> str:
    return f"was measured on {name!r}" if name else "names no device, as a run of prices alone does"


def _are_one_model(names: Sequence[str], profile: profiles.Profile | None) -> bool:
    candidates = [profile] if profile else []
    return any(all(map(candidate.matches, names)) for candidate in (*candidates, *profiles.load_profiles()))


def oldest_first(readers: Iterable[runfile.RunReader]) -> list[runfile.RunReader]:
    """Returns the runs in the order of their start; equal ones as they were given.

    A run without a start counts as newer than the runs given before it. A run without a
    header comes first: it may be of another device, so it must not replace a known row.
    """
    latest = (0, 0)
    keys = []
    for reader in readers:
        started = reader.header.started_at
        if reader.header.HasField("started_at"):
            latest = max(latest, (started.seconds, started.nanos))
            keys.append((not lacks_device(reader), (started.seconds, started.nanos), reader))
        else:
            keys.append((not lacks_device(reader), latest, reader))
    return [reader for *_, reader in sorted(keys, key=lambda key: key[:2])]


def place_in_words(reader: runfile.RunReader, readers: Sequence[runfile.RunReader]) -> str:
    """Returns why `oldest_first` put a run in its place; "" if the run itself says when it began."""
    if len(readers) == 1:
        return ""
    if lacks_device(reader):
        if all(map(lacks_device, readers)):
            return ""
        return "it may be of another device: it counts as the oldest run, and its rows have no profile"
    if not reader.header.HasField("started_at"):
        return "does not say when it began: it counts as newer than the runs named before it"
    return ""


def newest_run(readers: Sequence[runfile.RunReader]) -> runfile.RunReader:
    """Returns the run that began last; among equal ones, the last that was given."""
    return oldest_first(readers)[-1]


def newest_records(
    readers: Sequence[runfile.RunReader], duplicates: str | None = None
) -> list[benchmark_pb2.BenchmarkRecord]:
    """Returns the newest record of each case and implementation.

    Args:
      readers: The runs.
      duplicates: One of `duplicates.CHOICES`; None to refuse a file that has a row
        twice.

    Raises:
      duplicates.DuplicateError: A file has two successful records of one row, and
        `duplicates` does not say which counts.
      MixedDevicesError: The runs are of several devices, or one does not say of which.
      runfile.RunFileError: A file cannot be read.
    """
    device_name(readers)
    lost = [reader for reader in readers if lacks_device(reader)]
    if 0 < len(lost) < len(readers):
        problems = "; ".join(map(str, lost[0].problems)) or "its header names no device"
        raise MixedDevicesError(f"{lost[0].path} may be of another device than the others: {problems}")
    newest = {}
    for reader in oldest_first(readers):
        for record in run_duplicates.records(reader, duplicates):
            newest[record.op, record.case_id, record.implementation] = record
    return list(newest.values())


class Names:
    """The names in the records, for the message about a filter that no record passes."""

    def __init__(self):
        self._of_flag: dict[str, set[str]] = {"op": set(), "family": set(), "implementation": set(), "baselines": set()}

    def add(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        """Takes note of a record's names."""
        self._of_flag["op"].add(record.op)
        self._of_flag["family"].add(record.family)
        self._of_flag["implementation"].add(record.implementation)
        if record.library:
            self._of_flag["baselines"].add(record.library)

    def refuse_unknown_libraries(self, selection: Selection) -> None:
        """Raises NothingSelectedError if no record is of a library that the selection names."""
        known = self._of_flag["baselines"]
        for library in selection.libraries:
            if library != ALL and library not in known:
                raise NothingSelectedError(
                    f"--baselines={library}: the runs have no record of this library; they have records of"
                    f" {', '.join(sorted(known)) or 'none; //perf:bench --baselines=all measures libraries'}"
                )

    def refuse_empty(self, selection: Selection) -> None:
        """Raises NothingSelectedError if there is a filter.

        The message lists the names for the first flag without a match. If each flag
        matches by itself, it lists the names for all flags.
        """
        asked = {"op": selection.ops, "family": selection.families}
        if selection.implementation not in (BEST, ALL):
            asked["implementation"] = [selection.implementation]
        asked = {flag: wanted for flag, wanted in asked.items() if wanted}
        if not asked:
            return
        for flag, wanted in asked.items():
            if not any(globs.fits(name, *wanted) for name in self._of_flag[flag]):
                asked = {flag: wanted}
                break
        flags = " ".join(f"--{flag}={','.join(wanted)}" for flag, wanted in asked.items())
        listed_by = selection.listed_by or nearest.reported()
        there = "; ".join(
            f"of --{flag} {said}" if len(asked) > 1 else said
            for flag, wanted in asked.items()
            for said in [nearest.instead(" ".join(wanted), self._of_flag[flag], listed_by)]
        )
        raise NothingSelectedError(f"no record matches {flags}; {there}")

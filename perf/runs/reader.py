"""Run files, read as a stream (`writer` writes them).

A run file holds a header, records, and a footer (`proto/benchmark.proto`), as
varint-delimited messages in `*.binpb`, or as protobuf's JSON mapping, one
entry per line, in `*.jsonl`. The form of a file with another name (`/dev/stdin`) is
known by its content. An interrupted run leaves a file without a footer; its whole
entries are read, and the rest is named with its place.
"""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from tileops.perf.runs import framing, renames, scan
from tileops.perf.runs.scan import RunFileError
from tileops.proto import benchmark_pb2
from tileops.tools.cli import words

# Version of the messages that this project writes, and the newest it knows.
SCHEMA_VERSION = 1

_NO_HEADER = "no header: the file does not say what it was measured on"
_NAME_IT = "//perf:records --device_name=NAME makes a run file that names it"


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something in a run file that the user must know.

    Attributes:
      offset: Where in the file; None if it concerns the whole file. Bytes.
      message: What it is, in words.
      remedy: What the user can do about it; "" if there is nothing to say.
      line: The line that `offset` is in, from 1; None in a binary file.
    """

    offset: int | None
    message: str
    remedy: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = "" if self.offset is None else f"at {framing.place(self.offset, self.line)}: "
        return place + self.message + (f"; {self.remedy}" if self.remedy else "")


def read_run(path: str | os.PathLike) -> "RunReader":
    """Opens a run file: JSON lines or binary, by its name or else its content.

    Raises:
      RunFileError: The file cannot be opened, or holds no entry at all.
    """
    return RunReader(pathlib.Path(path))


def header(path: pathlib.Path) -> benchmark_pb2.RunHeader | None:
    """Returns the header of a run file; None if the file is no run file."""
    try:
        found = RunReader(path).header
    except RunFileError:
        return None
    return found if found.schema_version else None  # which every writer sets


class _Records(Protocol):
    """A run, in whatever form of file."""

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records."""


def is_earlier_output(path: pathlib.Path, run: benchmark_pb2.RunHeader, inputs: Iterable[_Records]) -> bool:
    """Returns whether a file holds this run, and no time that the inputs lack: replacing it loses no measurement."""
    found = header(path)
    if found is None or found.run_id != run.run_id:
        return False
    there, read = (collections.Counter(_times(readers)) for readers in ([RunReader(path)], inputs))
    return there <= read


def _times(readers: Iterable[_Records]) -> Iterator[tuple[str, bytes]]:
    """Yields what was measured: of each record with a time, the implementation and the time."""
    for reader in readers:
        for record in reader.records():
            if record.HasField("timing"):
                yield record.implementation, record.timing.SerializeToString(deterministic=True)


class RunReader:
    """The entries of one run file, streamed: `for entry in reader`.

    Attributes:
      path: The file.
      header: Its header; an empty one if the file has no header.
      has_header: Whether it has one that could be read.
      footer: Its footer. None before the entries were read to the end, and if the run
        was interrupted.
      problems: What was wrong, complete once the entries were read to the end.
      renamed: Records read so far that had other names. A count.

    Records have today's names: those that earlier versions gave them are read through
    `renames`, and counted as a problem.

    Every iteration reads the file again; a pipe is kept in memory, as it can be read only
    once.
    """

    def __init__(self, path: pathlib.Path, is_json: bool | None = None, as_written: bool = False):
        """Opens the file and reads its header.

        Args:
          path: The file.
          is_json: Whether it is JSON lines, whatever its name. Default: what its
            name or else its content says.
          as_written: Leave the names of records as they are in the file.

        Raises:
          RunFileError: The file cannot be opened, or holds no entry at all.
        """
        self.path = path
        self._is_json = is_json
        self._names = None if as_written else renames.load()
        self._piped = scan.read_pipe(path)
        self.header = benchmark_pb2.RunHeader()
        self.has_header = False
        self.footer: benchmark_pb2.RunFooter | None = None
        self.problems: list[Problem] = []
        self._line: int | None = None
        first = next(iter(self), None)
        if first is None:
            what = str(self.problems[0]) if self.problems else "it is empty"
            raise RunFileError(
                f"{path}: not a run file: {what}; //perf:bench writes run files, and //perf:records makes them from JUnit"
            )

    def __iter__(self) -> Iterator[benchmark_pb2.RunEntry]:
        """Yields the header (if any), the records and the footer (if any)."""
        return (entry for _, entry in self._placed())

    def _placed(self) -> Iterator[tuple[str, benchmark_pb2.RunEntry]]:
        """Yields each entry behind its place in the file."""
        self.footer = None
        self.problems = []
        self._count = 0
        self.renamed = 0
        end = 0
        is_first = True
        pieces = (
            scan.scan(self.path, self._is_json)
            if self._piped is None
            else scan.scan_bytes(self.path, self._piped, self._is_json)
        )
        for piece in pieces:
            end, self._line = piece.end, piece.line
            if isinstance(piece, framing.Broken):
                self._report(piece.start, piece.reason)
                continue
            if piece.note:
                self._report(piece.start, piece.note)
            kind = piece.entry.WhichOneof("entry")
            if kind == "header" and piece.start > 0:
                self._report_renamed()
                self._report(piece.start, "a second header: the rest belongs to another run and is not read")
                return
            if self.footer is not None:
                self._report(piece.start, f"a {kind} behind a footer; it is read nevertheless")
                self.footer = None
            if kind == "header":
                self._take_header(piece.entry.header)
            elif is_first:
                self._report(0, _NO_HEADER, _NAME_IT)
            is_first = False
            if kind == "record":
                self._count += 1
                if self._names is not None:
                    self.renamed += self._names.rename(piece.entry.record)
            elif kind == "footer":
                self.footer = piece.entry.footer
                self._check_time(piece.start, self.footer, "finished_at")
                self._check_count(piece.start)
            yield framing.place(piece.start, piece.line), piece.entry
        self._report_renamed()
        if self.footer is None and end:
            self._report(end, f"no footer: the run was interrupted after {words.counted(self._count, 'record')}")

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records."""
        for entry in self:
            if entry.HasField("record"):
                yield entry.record

    def numbered_records(self) -> Iterator[tuple[int, str, benchmark_pb2.BenchmarkRecord]]:
        """Yields each record behind its number among the file's records, from 1, and its place in the file."""
        placed = ((place, entry.record) for place, entry in self._placed() if entry.HasField("record"))
        for number, (place, record) in enumerate(placed, 1):
            yield number, place, record

    @property
    def lost(self) -> int:
        """How many records the footer counts that could not be read, once the file was read to its end."""
        return 0 if self.footer is None else max(self.footer.records - self._count, 0)

    def _report_renamed(self) -> None:
        if self.renamed:
            self.problems.append(Problem(None, renames.counted(self.renamed)))

    def _report(self, offset: int, message: str, remedy: str = "") -> None:
        self.problems.append(Problem(offset, message, remedy, self._line))

    def _take_header(self, header: benchmark_pb2.RunHeader) -> None:
        self.header, self.has_header = header, True
        if not renames.applies(header):
            self._names = None
        self._check_time(0, header, "started_at")
        if header.schema_version > SCHEMA_VERSION:
            self._report(
                0,
                f"written with schema version {header.schema_version}; this program"
                f" knows {SCHEMA_VERSION}, newer fields are ignored",
            )

    def _check_time(self, offset: int, entry, field: str) -> None:
        """Removes a time that no calendar has, so that no reader of the entry must check it."""
        if not entry.HasField(field):
            return
        time = getattr(entry, field)
        try:
            time.ToJsonString()
        except ValueError:
            said = f"{field} is not a time ({time.seconds} s and {time.nanos} ns since 1970)"
            self._report(offset, f"{said}; it is ignored")
            entry.ClearField(field)

    def _check_count(self, offset: int) -> None:
        assert self.footer is not None
        if self.footer.records != self._count:
            self._report(
                offset,
                f"the footer counts {words.counted(self.footer.records, 'record')}, and"
                f" {words.counted(self._count, 'record')} could be read",
            )

"""Run files, read as a stream. `writer` writes them.

A run file holds a header, records, and a footer (`proto/benchmark.proto`), as
varint-delimited messages in `*.binpb`, or as protobuf's JSON mapping, one
entry a line, in `*.jsonl`. What has another name (`/dev/stdin`) is told by its
content. A run that was interrupted leaves a file without a
footer; what is whole in it is read, and what is not is named with its offset.
"""

import dataclasses
import os
import pathlib
from collections.abc import Iterator

from tileops.perf.runs import framing, renames, scan
from tileops.perf.runs.scan import RunFileError
from tileops.proto import benchmark_pb2

# Version of the messages that this project writes, and the newest it knows.
SCHEMA_VERSION = 1

_NO_HEADER = "no header: the file does not say what it was measured on"
_NAME_IT = "//perf:records --device_name=NAME makes a run file that names it"


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something in a run file that its reader must hear of.

    Attributes:
      offset: Where in the file; None where it is of the file as a whole. Bytes.
      message: What it is, in words.
      remedy: What the user can do about it; "" where there is nothing to say.
    """

    offset: int | None
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        place = "" if self.offset is None else f"at byte {self.offset}: "
        return place + self.message + (f"; {self.remedy}" if self.remedy else "")


def read_run(path: str | os.PathLike) -> "RunReader":
    """Opens a run file: JSON lines or binary, by its name or else its content.

    Raises:
      RunFileError: The file cannot be opened, or holds no entry at all.
    """
    return RunReader(pathlib.Path(path))


class RunReader:
    """The entries of one run file, streamed: `for entry in reader`.

    Attributes:
      path: The file.
      header: Its header; an empty one where the file has none.
      has_header: Whether it has one that could be read.
      footer: Its footer. None before the entries were read to the end, and where
        the run was interrupted.
      problems: What was wrong, complete once the entries were read to the end.
      renamed: Records read so far that had other names. A count.

    Records have today's names: those that earlier versions gave them are read through
    `renames`, and counted as a problem.

    Every iteration reads the file anew; what can be read once alone, a pipe, is
    kept in memory.
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
        first = next(iter(self), None)
        if first is None:
            what = str(self.problems[0]) if self.problems else "it is empty"
            raise RunFileError(f"{path}: not a run file: {what}")

    def __iter__(self) -> Iterator[benchmark_pb2.RunEntry]:
        """Yields the header (if any), the records and the footer (if any)."""
        return (entry for _, entry in self._placed())

    def _placed(self) -> Iterator[tuple[int, benchmark_pb2.RunEntry]]:
        """Yields each entry behind its byte offset."""
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
            end = piece.end
            if isinstance(piece, framing.Broken):
                self._report(piece.start, piece.reason)
                continue
            if piece.note:
                self._report(piece.start, piece.note)
            kind = piece.entry.WhichOneof("entry")
            if kind == "header" and piece.start > 0:
                self._report_renamed()
                self._report(piece.start, "a second header: what follows belongs to another run and is not read")
                return
            if self.footer is not None:
                self._report(piece.start, f"a {kind} behind a footer; read all the same")
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
            yield piece.start, piece.entry
        self._report_renamed()
        if self.footer is None and end:
            self._report(end, f"no footer: the run was interrupted after {records_counted(self._count)}")

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records alone."""
        for entry in self:
            if entry.HasField("record"):
                yield entry.record

    def numbered_records(self) -> Iterator[tuple[int, int, benchmark_pb2.BenchmarkRecord]]:
        """Yields each record behind its place among the file's records, from 1, and its byte offset."""
        number = 0
        for offset, entry in self._placed():
            if entry.HasField("record"):
                number += 1
                yield number, offset, entry.record

    @property
    def lost(self) -> int:
        """How many records the footer counts that could not be read, once the file was read to its end."""
        return 0 if self.footer is None else max(self.footer.records - self._count, 0)

    def _report_renamed(self) -> None:
        if self.renamed:
            self.problems.append(Problem(None, renames.counted(self.renamed)))

    def _report(self, offset: int, message: str, remedy: str = "") -> None:
        self.problems.append(Problem(offset, message, remedy))

    def _take_header(self, header: benchmark_pb2.RunHeader) -> None:
        self.header, self.has_header = header, True
        if not renames.applies(header):
            self._names = None
        self._check_time(0, header, "started_at")
        if header.schema_version > SCHEMA_VERSION:
            self._report(
                0,
                f"written with schema version {header.schema_version}; this program"
                f" knows {SCHEMA_VERSION}, newer fields are not read",
            )

    def _check_time(self, offset: int, entry, field: str) -> None:
        """Takes out a time that no calendar has; what reads the entry need not guard against it."""
        if not entry.HasField(field):
            return
        time = getattr(entry, field)
        try:
            time.ToJsonString()
        except ValueError:
            said = f"{field} is no time ({time.seconds} s and {time.nanos} ns since 1970)"
            self._report(offset, f"{said}; read as if it were not there")
            entry.ClearField(field)

    def _check_count(self, offset: int) -> None:
        assert self.footer is not None
        if self.footer.records != self._count:
            self._report(
                offset,
                f"the footer counts {records_counted(self.footer.records)}, and"
                f" {records_counted(self._count)} could be read",
            )


def records_counted(count: int) -> str:
    """Returns a count of records in words."""
    return "1 record" if count == 1 else f"{count} records"

"""Run files: written entry by entry, read as a stream.

A run file holds a header, records, and a footer (`proto/benchmark.proto`), as
varint-delimited messages in `*.binpb`, or as protobuf's JSON mapping, one
entry a line, in `*.jsonl`. What has another name (`/dev/stdin`) is told by its
content. A run that was interrupted leaves a file without a
footer; what is whole in it is read, and what is not is named with its offset.
"""

import contextlib
import dataclasses
import io
import mmap
import os
import pathlib
import re
from collections.abc import Iterator

from google.protobuf import json_format
from google.protobuf import timestamp_pb2

from tileops.perf import run_framing
from tileops.proto import benchmark_pb2

# Version of the messages that this module writes, and the newest it knows.
SCHEMA_VERSION = 1

# How much of a mapped file is read before its pages are given back.
_WINDOW_BYTES = 16 * 2**20

# No binary file begins so: it has a tag of `RunEntry` behind its first length.
_JSON_HEAD = re.compile(rb'\s*\{[ \t]*"')
_HEAD_BYTES = 64

# Counter of the footer that each status belongs to.
_COUNTER_OF_STATUS = {
    benchmark_pb2.STATUS_OK: "ok",
    benchmark_pb2.STATUS_SKIPPED: "skipped",
    benchmark_pb2.STATUS_ERROR: "errors",
    benchmark_pb2.STATUS_TIMEOUT: "timeouts",
}


class RunFileError(Exception):
    """A run file that cannot be read or written; the message says which and why."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """Something in a run file that its reader must hear of.

    Attributes:
      offset: Where in the file. Bytes.
      message: What it is, in words.
    """

    offset: int
    message: str

    def __str__(self) -> str:
        return f"at byte {self.offset}: {self.message}"


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
      footer: Its footer. None before the entries were read to the end, and where
        the run was interrupted.
      problems: What was wrong, complete once the entries were read to the end.

    Every iteration reads the file anew; what can be read once alone, a pipe, is
    kept in memory.
    """

    def __init__(self, path: pathlib.Path, is_json: bool | None = None):
        """Opens the file and reads its header.

        Args:
          path: The file.
          is_json: Whether it is JSON lines, whatever its name. Default: what its
            name or else its content says.

        Raises:
          RunFileError: The file cannot be opened, or holds no entry at all.
        """
        self.path = path
        self._is_json = is_json
        self._piped = _read_pipe(path)
        self.header = benchmark_pb2.RunHeader()
        self.footer: benchmark_pb2.RunFooter | None = None
        self.problems: list[Problem] = []
        first = next(iter(self), None)
        if first is None:
            what = str(self.problems[0]) if self.problems else "it is empty"
            raise RunFileError(f"{path}: not a run file: {what}")

    def __iter__(self) -> Iterator[benchmark_pb2.RunEntry]:
        """Yields the header (if any), the records and the footer (if any)."""
        self.footer = None
        self.problems = []
        counts = benchmark_pb2.RunFooter()
        end = 0
        pieces = (
            scan_run(self.path, self._is_json)
            if self._piped is None
            else _scan(self.path, io.BytesIO(self._piped), self._piped, self._is_json)
        )
        for piece in pieces:
            end = piece.end
            if isinstance(piece, run_framing.Broken):
                self._report(piece.start, piece.reason)
                continue
            kind = piece.entry.WhichOneof("entry")
            if kind == "header" and piece.start > 0:
                self._report(
                    piece.start,
                    "a second header: what follows belongs to another run and is"
                    " not read",
                )
                return
            if self.footer is not None:
                self._report(
                    piece.start, f"a {kind} behind a footer; read all the same"
                )
                self.footer = None
            if kind == "header":
                self._take_header(piece.entry.header)
            elif piece.start == 0:
                self._report(0, "no header: the device is not known")
            if kind == "record":
                counts.records += 1
            elif kind == "footer":
                self.footer = piece.entry.footer
                self._check_counts(piece.start, counts)
            yield piece.entry
        if self.footer is None and end:
            self._report(
                end,
                "no footer: the run was interrupted after"
                f" {_records(counts.records)}",
            )

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records alone."""
        for entry in self:
            if entry.HasField("record"):
                yield entry.record

    def _report(self, offset: int, message: str) -> None:
        self.problems.append(Problem(offset, message))

    def _take_header(self, header: benchmark_pb2.RunHeader) -> None:
        self.header = header
        if header.schema_version > SCHEMA_VERSION:
            self._report(
                0,
                f"written with schema version {header.schema_version}; this program"
                f" knows {SCHEMA_VERSION}, newer fields are not read",
            )

    def _check_counts(self, offset: int, counts: benchmark_pb2.RunFooter) -> None:
        if self.footer.records != counts.records:
            self._report(
                offset,
                f"the footer counts {_records(self.footer.records)}, and"
                f" {_records(counts.records)} could be read",
            )


class RunWriter:
    """Writes a run file, each entry on disk before the next is made.

    Used as a context manager it closes the file with a footer when the block
    ends by itself, and leaves a readable, interrupted file when it raises.

    Attributes:
      path: The file.
      counts: What the footer will say so far.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        header: benchmark_pb2.RunHeader,
        append: bool = False,
    ):
        """Opens the file and writes the header.

        Args:
          path: `*.jsonl` is written as JSON lines, anything else as binary.
          header: Opens the file. `schema_version` is set here. Without
            `started_at` the footer carries no time either.
          append: Continue the run in `path`, if there is one: its torn end is cut
            off, its footer rewritten at the end. Otherwise it is overwritten.

        Raises:
          RunFileError: The file cannot be written, or the run in it was measured
            in another environment than `header` names.
        """
        self.path = pathlib.Path(path)
        self.counts = benchmark_pb2.RunFooter()
        self._timed = header.HasField("started_at")
        continued = append and self.path.exists() and self.path.stat().st_size > 0
        self._is_json = _is_json(self.path)
        self._end = self._resume_at(header) if continued else 0
        try:
            self._file = open(self.path, "r+b" if continued else "wb", buffering=0)
            if continued:
                self._cut()
                self._end_line()
        except OSError as error:
            raise RunFileError(f"cannot write {self.path}: {error.strerror}") from error
        if self._end == 0:
            stamped = benchmark_pb2.RunHeader()
            stamped.CopyFrom(header)
            stamped.schema_version = SCHEMA_VERSION
            self._append(benchmark_pb2.RunEntry(header=stamped))

    def __enter__(self) -> "RunWriter":
        return self

    def __exit__(self, exception_type, exception, traceback) -> None:
        if exception_type is None:
            self.close()
        else:
            self.interrupt()

    def write(self, record: benchmark_pb2.BenchmarkRecord) -> None:
        """Appends a record.

        Raises:
          RunFileError: It could not be written; the file still ends with the
            record before it.
        """
        self._append(benchmark_pb2.RunEntry(record=record))
        count_record(self.counts, record)

    def interrupt(self) -> None:
        """Closes the file as it is, without a footer. `close` then does nothing."""
        self._file.close()

    def close(self, finished_at: timestamp_pb2.Timestamp | None = None) -> None:
        """Writes the footer and closes the file. Closing twice does nothing.

        Args:
          finished_at: When the run ended. Default: now, if the header says when it
            began.
        """
        if self._file.closed:
            return
        if finished_at is not None:
            self.counts.finished_at.CopyFrom(finished_at)
        elif self._timed:
            self.counts.finished_at.GetCurrentTime()
        try:
            self._append(benchmark_pb2.RunEntry(footer=self.counts))
        finally:
            self._file.close()

    def _append(self, entry: benchmark_pb2.RunEntry) -> None:
        data = json_line(entry) if self._is_json else run_framing.frame(entry)
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # A device file cannot be cut.
                self._cut()
            raise RunFileError(
                f"cannot write {self.path}: {error.strerror}; it holds"
                f" {_records(self.counts.records)}, and the run can be continued"
            ) from error
        self._end += len(data)

    def _cut(self) -> None:
        """Leaves the whole entries alone; a part of one is of no use."""
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _end_line(self) -> None:
        """Ends the last line, where a writer stopped just before its end."""
        self._file.seek(self._end - 1)
        if self._is_json and self._file.read(1) != b"\n":
            self._file.write(b"\n")
        self._end = self._file.seek(0, os.SEEK_END)

    def _resume_at(self, header: benchmark_pb2.RunHeader) -> int:
        """Counts what is whole in the file; returns where to go on. Bytes."""
        reader = read_run(self.path)
        _refuse_other_environment(self.path, reader.header, header)
        with open(self.path, "rb") as file:
            self._is_json = _holds_json(self.path, file.read(_HEAD_BYTES))
        end = 0
        for piece in scan_run(self.path):
            if end < piece.start:
                raise RunFileError(
                    f"cannot continue {self.path}: there is more behind its footer"
                )
            if isinstance(piece, run_framing.Broken):
                if piece.torn:
                    break
            elif piece.entry.HasField("footer"):
                continue
            elif piece.entry.HasField("record"):
                count_record(self.counts, piece.entry.record)
            end = piece.end
        return end


def count_record(
    counts: benchmark_pb2.RunFooter, record: benchmark_pb2.BenchmarkRecord
) -> None:
    """Adds a record to the counts of a footer."""
    counts.records += 1
    counter = _COUNTER_OF_STATUS.get(record.status)
    if counter:
        setattr(counts, counter, getattr(counts, counter) + 1)


def scan_run(
    path: pathlib.Path, is_json: bool | None = None
) -> Iterator[run_framing.Whole | run_framing.Broken]:
    """Yields the pieces of a run file, whole and broken, in order.

    Args:
      path: The file.
      is_json: As of `RunReader`.

    Raises:
      RunFileError: The file cannot be read.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > 0:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                    given_back = 0
                    for piece in _scan(path, file, buffer, is_json):
                        yield piece
                        if piece.end - given_back > _WINDOW_BYTES:
                            given_back = _give_back(buffer, given_back, piece.end)
    except OSError as error:
        raise RunFileError(f"cannot read {path}: {error.strerror}") from error


def _scan(
    path: pathlib.Path, file, buffer, is_json: bool | None
) -> Iterator[run_framing.Whole | run_framing.Broken]:
    """Yields the pieces of a run, given as an open file and as its bytes."""
    if is_json is None:
        is_json = _holds_json(path, buffer[:_HEAD_BYTES])
    if is_json:
        yield from _scan_json_lines(file)
    else:
        yield from run_framing.scan(buffer)


def _give_back(buffer: mmap.mmap, start: int, end: int) -> int:
    """Lets go of the memory behind a part of a mapped file that was read.

    Returns the end of what was let go: the last page boundary. Where the system
    cannot be told, it keeps the pages until it needs them.
    """
    end -= end % mmap.PAGESIZE
    if hasattr(mmap, "MADV_DONTNEED"):
        buffer.madvise(mmap.MADV_DONTNEED, start, end - start)
    return end


def _read_pipe(path: pathlib.Path) -> bytes | None:
    """Returns what comes out of a pipe; None where `path` is none."""
    try:
        return path.read_bytes() if path.is_fifo() or path.is_char_device() else None
    except OSError as error:
        raise RunFileError(f"cannot read {path}: {error.strerror}") from error


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _is_json(path: pathlib.Path) -> bool:
    return path.suffix == ".jsonl"


def _holds_json(path: pathlib.Path, head: bytes) -> bool:
    """Whether a run file is JSON: by its name, or where that says nothing, its head.

    A binary file has a tag of `RunEntry` where a JSON line has a quote.
    """
    if path.suffix in (".jsonl", ".binpb"):
        return _is_json(path)
    return _JSON_HEAD.match(head) is not None


def json_line(entry: benchmark_pb2.RunEntry) -> bytes:
    """Returns an entry as the line that it takes in a `.jsonl` file."""
    text = json_format.MessageToJson(
        entry, preserving_proto_field_name=True, indent=None, sort_keys=True
    )
    return text.encode() + b"\n"


def _scan_json_lines(file) -> Iterator[run_framing.Whole | run_framing.Broken]:
    start = 0
    for line in file:
        end = start + len(line)
        if not line.isspace():
            entry = benchmark_pb2.RunEntry()
            try:
                json_format.Parse(line, entry)
                if entry.WhichOneof("entry") is None:
                    raise json_format.ParseError("no header, record or footer")
                yield run_framing.Whole(start, end, entry)
            except (json_format.ParseError, UnicodeDecodeError) as error:
                reason = " ".join(str(error).split())
                yield run_framing.Broken(start, end, reason, not line.endswith(b"\n"))
        start = end


def _refuse_other_environment(
    path: pathlib.Path,
    there: benchmark_pb2.RunHeader,
    here: benchmark_pb2.RunHeader,
) -> None:
    """Raises RunFileError unless both headers name the same environment."""
    for field in there.environment.DESCRIPTOR.fields:
        old = getattr(there.environment, field.name)
        new = getattr(here.environment, field.name)
        if old != new:
            raise RunFileError(
                f"cannot continue {path}: it was measured with {field.name}"
                f" {old!r}, this run has {new!r}; write to another file"
            )

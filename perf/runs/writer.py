"""Run files, written entry by entry, so that an interruption costs one entry at most."""

import contextlib
import dataclasses
import os
import pathlib

from google.protobuf import timestamp_pb2

from tileops.perf.runs import framing, headers, scan
from tileops.perf.runs import json as run_json
from tileops.perf.runs import lock as run_lock
from tileops.perf.runs import reader as runfile
from tileops.perf.runs.scan import RunFileError
from tileops.proto import benchmark_pb2
from tileops.tools.cli import words

# Counter of the footer that each status belongs to.
_COUNTER_OF_STATUS = {
    benchmark_pb2.STATUS_OK: "ok",
    benchmark_pb2.STATUS_SKIPPED: "skipped",
    benchmark_pb2.STATUS_ERROR: "errors",
    benchmark_pb2.STATUS_TIMEOUT: "timeouts",
}


@dataclasses.dataclass(frozen=True)
class Damage:
    """What is lost in a run file that is continued.

    Attributes:
      places: Where it has no whole entry, with the reason.
      records: How many records its footer counts and nobody can read; None if it has no
        footer.
    """

    places: tuple[runfile.Problem, ...]
    records: int | None


class RunWriter:
    """Writes a run file, each entry on disk before the next is made.

    As a context manager it closes the file with a footer if the block ends normally,
    and leaves a readable, interrupted file if the block raises.

    Attributes:
      path: The file.
      counts: What the footer will say so far.
      damage: What is lost of the run that is continued; None for nothing.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        header: benchmark_pb2.RunHeader,
        append: bool = False,
        lock: run_lock.Lock | None = None,
    ):
        """Opens the file and writes the header.

        Args:
          path: `*.jsonl` is written as JSON lines, anything else as binary.
          header: Opens the file. `schema_version` is set here. Without
            `started_at` the footer carries no time either.
          append: Continue the run in `path`, if there is one: its torn end is cut
            off, its footer rewritten at the end. Otherwise it is overwritten.
          lock: The lock of `path`, if the caller has taken it. The writer releases it with
            the file.

        Raises:
          RunFileError: The file cannot be written, another process writes it, or the
            run in it was measured in another environment, with other plugins, or is
            another part than `header` names.
        """
        self.path = pathlib.Path(path)
        self._lock = lock or run_lock.Lock(self.path)
        try:
            self._open(header, append)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, header: benchmark_pb2.RunHeader, append: bool) -> None:
        self.counts = benchmark_pb2.RunFooter()
        self.damage: Damage | None = None
        self._timed = header.HasField("started_at")
        continued = append and self.path.exists() and self.path.stat().st_size > 0
        self._is_json = run_json.is_json(self.path)
        self._end = self._resume_at(header) if continued else 0
        try:
            self._file = open(  # noqa: SIM115 -- `close` closes it
                self.path, "r+b" if continued else "wb", buffering=0
            )
            if continued:
                self._cut()
                self._end_line()
        except OSError as error:
            raise RunFileError(f"cannot write {self.path}: {error.strerror}") from error
        if self._end == 0:
            stamped = benchmark_pb2.RunHeader()
            stamped.CopyFrom(header)
            stamped.schema_version = runfile.SCHEMA_VERSION
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
        self._lock.release()

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
            self.interrupt()

    def _append(self, entry: benchmark_pb2.RunEntry) -> None:
        data = run_json.line(entry) if self._is_json else framing.frame(entry)
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # A device file cannot be cut.
                self._cut()
            raise RunFileError(
                f"cannot write {self.path}: {error.strerror}; it holds"
                f" {words.counted(self.counts.records, 'record')}, and the run can be continued"
            ) from error
        self._end += len(data)

    def _cut(self) -> None:
        """Cuts off a part of an entry at the end of the file."""
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _end_line(self) -> None:
        """Ends the last line, if a writer stopped just before its end."""
        self._file.seek(self._end - 1)
        if self._is_json and self._file.read(1) != b"\n":
            self._file.write(b"\n")
        self._end = self._file.seek(0, os.SEEK_END)

    def _resume_at(self, header: benchmark_pb2.RunHeader) -> int:
        """Counts the whole entries of the file; returns where to continue. Bytes."""
        reader = runfile.read_run(self.path)
        if not reader.has_header:
            raise RunFileError(
                f"cannot continue {self.path}: {reader.problems[0]}, so the device of its rows"
                " is unknown; write to another file"
            )
        _refuse_other_environment(self.path, reader.header, header)
        with open(self.path, "rb") as file:
            self._is_json = run_json.holds_json(self.path, file.read(run_json.HEAD_BYTES))
        end = 0
        places = []
        footer = None
        for piece in scan.scan(self.path):
            if end < piece.start:
                raise RunFileError(
                    f"cannot continue {self.path}: there are entries behind its footer; write to another file"
                )
            if isinstance(piece, framing.Broken):
                if piece.torn:
                    break
                places.append(runfile.Problem(piece.start, piece.reason, line=piece.line))
            elif piece.entry.HasField("footer"):
                footer = piece.entry.footer
                continue
            elif piece.entry.HasField("record"):
                count_record(self.counts, piece.entry.record)
            end = piece.end
        lost = None if footer is None else max(0, footer.records - self.counts.records)
        # A footer that counts no more than is there was written after the damage.
        if lost or (places and footer is None):
            self.damage = Damage(tuple(places), lost)
        return end


def count_record(counts: benchmark_pb2.RunFooter, record: benchmark_pb2.BenchmarkRecord) -> None:
    """Adds a record to the counts of a footer."""
    counts.records += 1
    counter = _COUNTER_OF_STATUS.get(record.status)
    if counter:
        setattr(counts, counter, getattr(counts, counter) + 1)


def _refuse_other_environment(
    path: pathlib.Path, there: benchmark_pb2.RunHeader, here: benchmark_pb2.RunHeader
) -> None:
    """Raises RunFileError unless both headers name the same environment, plugins and part."""
    for name, old, new in headers.differing_fields(there.environment, here.environment):
        raise RunFileError(
            f"cannot continue {path}: it was measured with {name} {old!r}, this run has {new!r}; write to another file"
        )
    plugins = headers.plugin_difference(there, here)
    if plugins is not None:
        raise RunFileError(
            f"cannot continue {path}: in it and in this run {plugins}; restore the plug-ins that it was measured with, or write to"
            " another file"
        )
    if there.parts != here.parts:
        raise RunFileError(
            f"cannot continue {path}: it holds {headers.parts_in_words(there.parts)}, and this run is"
            f" {headers.parts_in_words(here.parts)}; give --shard as before, or write to another file"
        )

"""Several runs as one: the shards of a run that was spread over machines.

They must have measured the same device model with the same software, sources and
plug-ins, and no row twice; the machines may differ. If runs say which part of the whole
they are, all parts must be there.
"""

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Protocol

from tileops.perf.runs import duplicates as run_duplicates
from tileops.perf.runs import headers
from tileops.perf.runs import reader as runfile
from tileops.proto import benchmark_pb2
from tileops.tools.cli import errors


class MergeError(errors.UserError):
    """Runs that are not shards of one run; the message says which and why."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Allowed:
    """What is refused unless the user allows it; then the merged run says so.

    Attributes:
      unknown_revision: Runs that do not name their revision, or whose sources differed
        from it.
      missing_parts: Only some parts of the whole.
    """

    unknown_revision: bool = False
    missing_parts: bool = False


class Reader(Protocol):
    """A run that can be read: `runfile.RunReader`, or another form of file."""

    path: pathlib.Path
    header: benchmark_pb2.RunHeader
    footer: benchmark_pb2.RunFooter | None
    problems: list[runfile.Problem]

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records."""


def merged_header(readers: Sequence[Reader], allowed: Allowed = Allowed()) -> benchmark_pb2.RunHeader:
    """Returns the header of the runs as one: begun when the first of them began.

    Raises:
      MergeError: They are of different devices, software, sources or plug-ins, are not
        all parts of the whole, or do not say enough to decide.
    """
    first = readers[0]
    _refuse_repeated([reader.path for reader in readers])
    header = benchmark_pb2.RunHeader()
    header.CopyFrom(first.header)
    if len(readers) == 1:
        return header
    environment = header.environment
    for reader in readers[1:]:
        other = reader.header.environment
        for name, ours, theirs in headers.differing_fields(environment, other, headers.MACHINE_FIELDS):
            raise MergeError(
                f"{first.path} and {reader.path} are not shards of one run: their {name} is {ours!r} and {theirs!r}"
            )
        plugins = headers.plugin_difference(header, reader.header)
        if plugins is not None:
            raise MergeError(
                f"{first.path} and {reader.path} are not shards of one run: {plugins}; measure one of them again"
            )
        environment.device_count += other.device_count
        if other.hostname_hash != environment.hostname_hash:
            environment.hostname_hash = ""
    del header.notes[:]
    header.notes.extend(dict.fromkeys(note for reader in readers for note in reader.header.notes))
    _check_revision(header, len(readers), allowed)
    _merge_parts(header, readers, allowed)
    started = [reader.header.started_at for reader in readers if reader.header.HasField("started_at")]
    if started:
        header.started_at.CopyFrom(min(started, key=_moment))
    return header


def _check_revision(header: benchmark_pb2.RunHeader, count: int, allowed: Allowed) -> None:
    """Raises MergeError if the runs may be of different sources; if that is allowed, adds a note."""
    environment = header.environment
    if environment.project_revision and not environment.project_dirty:
        return
    doubt = (
        f"sources that differed from their revision {environment.project_revision}"
        if environment.project_dirty and environment.project_revision
        else "sources whose revision is not known"
    )
    if not allowed.unknown_revision:
        raise MergeError(
            f"the {count} runs are of {doubt}, which may differ: measure from a commit or a zip, or set"
            " TILEOPS_REVISION; if you know that they are the same, give --allow_unknown_revision"
        )
    header.notes.append(f"merged of {count} runs of {doubt}: that they are the same was not checked")


def _merge_parts(header: benchmark_pb2.RunHeader, readers: Sequence[Reader], allowed: Allowed) -> None:
    """Sets which parts the merged run holds; leaves them out if all are there, or if no run names its part.

    Raises:
      MergeError: The wholes were divided differently, a part is there twice, or a part
        is missing and that is not allowed.
    """
    header.ClearField("parts")
    owners: dict[int, pathlib.Path] = {}
    said = [reader for reader in readers if reader.header.HasField("parts")]
    for reader in said:
        parts = reader.header.parts
        if parts.count != said[0].header.parts.count:
            raise MergeError(
                f"{said[0].path} is {headers.parts_in_words(said[0].header.parts)} and {reader.path} is"
                f" {headers.parts_in_words(parts)}: they are not shards of one run"
            )
        for index in parts.indices:
            if owners.setdefault(index, reader.path) != reader.path:
                raise MergeError(
                    f"{owners[index]} and {reader.path} are both part {index} of {parts.count}; name one of them"
                )
    if not said:
        return
    header.parts.CopyFrom(headers.united(reader.header.parts for reader in said))
    lack = headers.missing_in_words(header.parts)
    if not lack:
        header.ClearField("parts")
    elif not allowed.missing_parts:
        silent = [str(reader.path) for reader in readers if reader not in said]
        hint = f" ({', '.join(silent)} does not say which part it is)" if silent else ""
        raise MergeError(
            f"missing: {lack}{hint}; name the files of all parts with --in, or give --allow_missing_parts to merge"
            " what is there"
        )


def merged_records(readers: Sequence[Reader], duplicates: str | None = None) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """Yields the records of all runs, run after run.

    Args:
      readers: The runs.
      duplicates: One of `duplicates.CHOICES`: which stays of several successful
        records that one run has of a row; None keeps them all.

    Raises:
      MergeError: Two runs hold the same row; within one, a later record replaces
        an earlier one, and both are kept.
    """
    owners: dict[tuple[str, str, str], pathlib.Path] = {}
    for reader in readers:
        # A JUnit reader refuses such rows itself.
        if duplicates is not None and isinstance(reader, runfile.RunReader):
            records = run_duplicates.records(reader, duplicates)
        else:
            records = reader.records()
        for record in records:
            key = (record.op, record.case_id, record.implementation)
            owner = owners.setdefault(key, reader.path) if len(readers) > 1 else reader.path
            if owner != reader.path:
                raise MergeError(f"{owner} and {reader.path} both hold {' '.join(key)}: they are not shards of one run")
            yield record


def merged_footer(readers: Sequence[Reader]) -> benchmark_pb2.RunFooter | None:
    """Returns the footer of the runs as one but for its counts, once all were read.

    None if a run was interrupted: then the whole was interrupted.
    """
    footers = [reader.footer for reader in readers if reader.footer is not None]
    if len(footers) < len(readers):
        return None
    merged = benchmark_pb2.RunFooter()
    finished = [each.finished_at for each in footers if each.HasField("finished_at")]
    if finished:
        merged.finished_at.CopyFrom(max(finished, key=_moment))
    return merged


def _refuse_repeated(files: Sequence[pathlib.Path]) -> None:
    """Raises MergeError if a file is named twice, even under two names."""
    for place, file in enumerate(files):
        for earlier in files[:place]:
            if file.is_file() and file.samefile(earlier):
                raise MergeError(f"{earlier} and {file} are one file; name it once")


def _moment(timestamp) -> tuple[int, int]:
    return timestamp.seconds, timestamp.nanos

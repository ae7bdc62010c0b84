"""Several runs as one: the shards of a run that was spread over machines.

They must have measured the same device model with the same software and sources,
and no row twice; the machines may differ.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Protocol

from tileops.perf import runfile
from tileops.proto import benchmark_pb2

# What shards of one run may differ in.
_FREE_FIELDS = frozenset(("hostname_hash", "device_count"))


class MergeError(Exception):
    """Runs that are no shards of one; the message says which and why."""


class Reader(Protocol):
    """A run that can be read: `runfile.RunReader`, or another form of file."""

    path: pathlib.Path
    header: benchmark_pb2.RunHeader
    footer: benchmark_pb2.RunFooter | None
    problems: list[runfile.Problem]

    def records(self) -> Iterator[benchmark_pb2.BenchmarkRecord]:
        """Yields the records."""


def merged_header(readers: Sequence[Reader]) -> benchmark_pb2.RunHeader:
    """Returns the header of the runs as one: begun when the first of them began.

    Raises:
      MergeError: They are of different devices, software or sources.
    """
    first = readers[0]
    _refuse_repeated([reader.path for reader in readers])
    header = benchmark_pb2.RunHeader()
    header.CopyFrom(first.header)
    environment = header.environment
    for reader in readers[1:]:
        other = reader.header.environment
        for field in environment.DESCRIPTOR.fields:
            ours, theirs = getattr(environment, field.name), getattr(other, field.name)
            if ours != theirs and field.name not in _FREE_FIELDS:
                raise MergeError(
                    f"{first.path} and {reader.path} are no shards of one run: their"
                    f" {field.name} is {ours!r} and {theirs!r}"
                )
        environment.device_count += other.device_count
        if other.hostname_hash != environment.hostname_hash:
            environment.hostname_hash = ""
    started = [
        reader.header.started_at for reader in readers if reader.header.HasField("started_at")
    ]
    if started:
        header.started_at.CopyFrom(min(started, key=_moment))
    return header


def merged_records(
    readers: Sequence[Reader],
) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """Yields the records of all runs, run after run.

    Raises:
      MergeError: Two runs hold the same row; within one, a later record replaces
        an earlier one, and both are kept.
    """
    owners: dict[tuple[str, str, str], pathlib.Path] = {}
    for reader in readers:
        for record in reader.records():
            key = (record.op, record.case_id, record.implementation)
            owner = owners.setdefault(key, reader.path) if len(readers) > 1 else reader.path
            if owner != reader.path:
                raise MergeError(
                    f"{owner} and {reader.path} both hold {' '.join(key)}: no shards of"
                    " one run"
                )
            yield record


def merged_footer(readers: Sequence[Reader]) -> benchmark_pb2.RunFooter | None:
    """Returns the footer of the runs as one but for its counts, once all were read.

    None where one of them was interrupted: then so was the whole.
    """
    footers = [reader.footer for reader in readers]
    if None in footers:
        return None
    merged = benchmark_pb2.RunFooter()
    finished = [each.finished_at for each in footers if each.HasField("finished_at")]
    if finished:
        merged.finished_at.CopyFrom(max(finished, key=_moment))
    return merged


def _refuse_repeated(files: Sequence[pathlib.Path]) -> None:
    """Raises MergeError where one file is named twice, under whatever names."""
    for place, file in enumerate(files):
        for earlier in files[:place]:
            if file.is_file() and file.samefile(earlier):
                raise MergeError(f"{earlier} and {file} are one file, and no shards of a run; name it once")


def _moment(timestamp) -> tuple[int, int]:
    return timestamp.seconds, timestamp.nanos

"""A run as text: JSON lines, CSV, or one message of protobuf's text format."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, TextIO

from google.protobuf import text_format

from tileops.perf.runs import json as run_json
from tileops.proto import benchmark_pb2
from tileops.tools.cli import csv_text

_TIMING_FIELDS = (
    "device_busy_ns",
    "device_busy_p10_ns",
    "device_busy_p90_ns",
    "excluded_copy_ns",
    "wall_ns",
    "samples",
    "activities",
)
_RECORD_FIELDS = (
    "op",
    "family",
    "case_id",
    "label",
    "implementation",
    "library",
    "is_default",
    "message",
    "roof_key",
    "flops",
    "bytes",
    "read_bytes",
    "device_index",
)
_MAPS = ("bindings", "dtypes", "data_terms")
_CSV_FIELDS = (*_RECORD_FIELDS, "status", "source", *_TIMING_FIELDS, "checked", "max_relative_error", *_MAPS)


def write_jsonl(entries: Iterable[benchmark_pb2.RunEntry], out: TextIO) -> None:
    """Writes one entry per line, in protobuf's JSON mapping."""
    out.writelines(run_json.line(entry).decode() for entry in entries)


def write_textproto(entries: Iterable[benchmark_pb2.RunEntry], out: TextIO) -> None:
    """Writes the run as one `benchmark.Run`, entry by entry."""
    out.write("# proto-file: proto/benchmark.proto\n")
    out.write("# proto-message: tileops.benchmark.Run\n")
    for entry in entries:
        run = benchmark_pb2.Run(entries=[entry])
        out.write(text_format.MessageToString(run, as_utf8=True))


def write_csv(entries: Iterable[benchmark_pb2.RunEntry], out: TextIO) -> None:
    """Writes only the records, one per line: maps as JSON, absent values as empty cells."""
    out.write(csv_text.line(_CSV_FIELDS))
    for record in records(entries):
        values = _csv_values(record)
        out.write(csv_text.line([values.get(field) for field in _CSV_FIELDS]))


def records(entries: Iterable[benchmark_pb2.RunEntry]) -> Iterator[benchmark_pb2.BenchmarkRecord]:
    """Yields the records among the entries."""
    for entry in entries:
        if entry.HasField("record"):
            yield entry.record


def _csv_values(record: benchmark_pb2.BenchmarkRecord) -> dict[str, Any]:
    timing, correctness = record.timing, record.correctness
    values = {name: _set_value(record, name) for name in _RECORD_FIELDS}
    if record.HasField("is_default"):
        values["is_default"] = str(record.is_default).lower()
    values["status"] = _enum_name(benchmark_pb2.Status, record.status, "STATUS_")
    if record.HasField("timing"):
        values["source"] = _enum_name(benchmark_pb2.TimingSource, timing.source, "TIMING_SOURCE_")
        values |= {name: _set_value(timing, name) for name in _TIMING_FIELDS}
    if record.HasField("correctness"):
        values["checked"] = str(correctness.checked).lower()
        values["max_relative_error"] = _set_value(correctness, "max_relative_error")
    for name in _MAPS:
        pairs = dict(sorted(getattr(record, name).items()))
        values[name] = json.dumps(pairs, ensure_ascii=False) if pairs else ""
    return values


def _set_value(message, name: str) -> Any:
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and not message.HasField(name):
        return None
    return getattr(message, name)


def _enum_name(enum, value: int, prefix: str) -> str:
    # A newer schema may have values that this program has no name for.
    known = value in enum.values()
    return enum.Name(value).removeprefix(prefix).lower() if known else str(value)

"""The report as JSON and as CSV, for other programs.

Both have one row per line. `json_row` and `csv_row` make it when its record is read,
`store` puts the rows in order, and `write_json` and `write_csv` add the rest.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from json import encoder
from typing import Any, TextIO

from google.protobuf import json_format

from tileops.perf.report import rows as report_rows
from tileops.perf.report import text as report_text
from tileops.perf.roof import pricing
from tileops.proto import benchmark_pb2, roofline_pb2
from tileops.tools.cli import csv_text

# Fields of a row, in their order. A CSV cell holds one value, so CSV leaves out the last
# three.
_NAMES = ("op", "family", "case_id", "label", "implementation", "library", "roof_key")
_FIELDS = (
    *_NAMES,
    "flops",
    "bytes",
    *(name for name in pricing.Readings._fields if name != "breaches"),
    "message",
    "data_terms",
    "breaches",
    "history",
)
_CSV_FIELDS = _FIELDS[:-3]

_VERDICTS = report_text.enum_names(roofline_pb2.Verdict.DESCRIPTOR)
_BOUNDS = report_text.enum_names(roofline_pb2.Bound.DESCRIPTOR)
_BLANK_REASONS = report_text.enum_names(roofline_pb2.BlankReason.DESCRIPTOR)

_JSON_VERDICTS, _JSON_BOUNDS, _JSON_BLANK_REASONS = (
    {number: json.dumps(name) for number, name in names.items()} for names in (_VERDICTS, _BOUNDS, _BLANK_REASONS)
)

# Readings are written with more digits than any clock has. Enough digits for every float
# would take twice the time.
_NUMBER = "%.12g"
_NUMBERS = frozenset(pricing.Readings._fields[4:-1])
_TRUTHS = {False: "false", True: "true"}

# Rows are nearly all of a document, and a template writes one in a fraction of the
# time that a dictionary and a general encoder take. The second is for rows that
# have every reading.
_JSON_ROW, _JSON_FULL_ROW = (
    "{" + ", ".join(f'"{name}": {number if name in _NUMBERS else "%s"}' for name in _FIELDS) + "}"
    for number in ("%s", _NUMBER)
)
_CSV_NUMBERS = ",".join([_NUMBER] * len(_NUMBERS))

_quoted = encoder.encode_basestring_ascii


def json_row(
    record: benchmark_pb2.BenchmarkRecord, readings: pricing.Readings, history: Sequence[report_rows.HistoryPoint]
) -> bytes:
    """Returns a row of `write_json`: enums by name, null for an absent reading."""
    verdict, blank_reason, bound, is_latency_bound, *numbers, breaches = readings
    template = _JSON_FULL_ROW
    written: Sequence[float | str | None] = numbers
    if None in numbers:
        template = _JSON_ROW
        written = ["null" if number is None else _NUMBER % number for number in numbers]
    terms = record.data_terms
    text = template % (
        *[_quoted(getattr(record, name)) for name in _NAMES],
        record.flops,
        record.bytes,
        _JSON_VERDICTS[verdict],
        _JSON_BLANK_REASONS[blank_reason],
        _JSON_BOUNDS[bound],
        _TRUTHS[is_latency_bound],
        *written,
        _quoted(record.message),
        json.dumps(dict(sorted(terms.items()))) if terms else "{}",
        json.dumps([breach._asdict() for breach in breaches]) if breaches else "[]",
        json.dumps([point._asdict() for point in history]) if history else "[]",
    )
    return text.encode()


def csv_row(
    record: benchmark_pb2.BenchmarkRecord, readings: pricing.Readings, history: Sequence[report_rows.HistoryPoint]
) -> bytes:
    """Returns a line of `write_csv`; an absent reading is an empty cell."""
    del history  # Several values; JSON has them.
    verdict, blank_reason, bound, is_latency_bound, *numbers, _ = readings
    if None in numbers:
        cells = ",".join(["" if number is None else _NUMBER % number for number in numbers])
    else:
        cells = _CSV_NUMBERS % tuple(numbers)
    # Numbers need no quotes: they are put in as they are.
    names = csv_text.cells(
        *[getattr(record, name) for name in _NAMES],
        record.flops,
        record.bytes,
        _VERDICTS[verdict],
        _BLANK_REASONS[blank_reason],
        _BOUNDS[bound],
        _TRUTHS[is_latency_bound],
    )
    message = record.message and csv_text.cells(record.message)
    return f"{names},{cells},{message}\n".encode()


def write_json(head: roofline_pb2.Report, rows: Iterable[bytes], out: TextIO) -> None:
    """Writes the report with one row per line, so that two reports can be compared.

    Args:
      head: The report but for its rows.
      rows: Texts of the rows, from `json_row`.
      out: Where to.
    """
    has_profile = head.HasField("profile")
    parts = {
        "is_prediction": head.is_prediction,
        "profile": message_as_dict(head.profile) if has_profile else None,
        "runs": [message_as_dict(run) for run in head.runs],
        "health": report_text.enum_name(head, "health"),
        "summary": {field.name: getattr(head.summary, field.name) for field in head.summary.DESCRIPTOR.fields},
        "outcomes": {field.name: getattr(head.outcomes, field.name) for field in head.outcomes.DESCRIPTOR.fields},
        "adds_implementations": head.adds_implementations,
    }
    write_document(parts, map(bytes.decode, rows), out)


def write_document(parts: Mapping[str, Any], rows: Iterable[str], out: TextIO) -> None:
    """Writes an object with the members of `parts`, and behind them "rows", one JSON text per line."""
    out.write("{\n")
    out.writelines(
        f"{json.dumps(name)}: {json.dumps(value, indent=1, allow_nan=False)},\n" for name, value in parts.items()
    )
    out.write('"rows": [')
    separator = "\n"
    for row in rows:
        out.write(separator + row)
        separator = ",\n"
    out.write("\n]}\n")


def write_csv(rows: Iterable[bytes], out: TextIO) -> None:
    """Writes a header line, and the rows that `csv_row` made."""
    out.write(csv_text.line(_CSV_FIELDS))
    out.writelines(row.decode() for row in rows)


def message_as_dict(message) -> dict[str, Any]:
    """Returns a message's set fields under their proto names, counts as numbers."""
    plain = json_format.MessageToDict(message, preserving_proto_field_name=True)
    # protobuf's mapping writes 64-bit integers as text; here they are counts
    # that every reader wants as numbers.
    for field in message.DESCRIPTOR.fields:
        if field.name in plain and field.cpp_type == field.CPPTYPE_UINT64:
            plain[field.name] = int(plain[field.name])
    return plain

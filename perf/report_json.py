"""The report as JSON and as CSV, for other programs."""

import csv
import json
from collections.abc import Iterable
from typing import Any, TextIO

from google.protobuf import descriptor
from google.protobuf import json_format

from tileops.perf import report_rows
from tileops.proto import roofline_pb2

# A CSV cell holds one value; these fields hold several.
_FIELDS_NOT_IN_CSV = frozenset(("data_terms", "breaches"))


def write_json(report: roofline_pb2.Report, out: TextIO) -> None:
    """Writes the report with one row a line, so that two can be compared."""
    has_profile = report.HasField("profile")
    head = {
        "is_prediction": report.is_prediction,
        "profile": _message_as_dict(report.profile) if has_profile else None,
        "runs": [_message_as_dict(run) for run in report.runs],
        "health": report_rows.enum_name(report, "health"),
        "summary": {
            field.name: getattr(report.summary, field.name)
            for field in report.summary.DESCRIPTOR.fields
        },
    }
    out.write("{\n")
    for name, value in head.items():
        out.write(f"{json.dumps(name)}: {json.dumps(value, indent=1, allow_nan=False)},\n")
    out.write('"rows": [')
    separator = "\n"
    for row in report.rows:
        out.write(separator + json.dumps(row_as_dict(row), allow_nan=False))
        separator = ",\n"
    out.write("\n]}\n")


def write_csv(rows: Iterable[roofline_pb2.Row], out: TextIO) -> None:
    """Writes the rows with a header line; an absent reading is an empty cell."""
    names = [
        field.name
        for field in roofline_pb2.Row.DESCRIPTOR.fields
        if field.name not in _FIELDS_NOT_IN_CSV
    ]
    writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(row_as_dict(row))


def row_as_dict(row: roofline_pb2.Row) -> dict[str, Any]:
    """Returns every field of a row: enums by name, None for an absent reading."""
    return {field.name: _value(row, field) for field in row.DESCRIPTOR.fields}


def _value(row: roofline_pb2.Row, field: descriptor.FieldDescriptor) -> Any:
    if field.name == "data_terms":
        return dict(sorted(row.data_terms.items()))
    if field.name == "breaches":
        return [_message_as_dict(breach) for breach in row.breaches]
    if field.enum_type is not None:
        return report_rows.enum_name(row, field.name)
    if field.has_presence and not row.HasField(field.name):
        return None
    return getattr(row, field.name)


def _message_as_dict(message) -> dict[str, Any]:
    """Returns a message's set fields under their proto names, counts as numbers."""
    plain = json_format.MessageToDict(message, preserving_proto_field_name=True)
    # protobuf's mapping writes 64-bit integers as text; here they are counts
    # that every reader wants as numbers.
    for field in message.DESCRIPTOR.fields:
        if field.name in plain and field.cpp_type == field.CPPTYPE_UINT64:
            plain[field.name] = int(plain[field.name])
    return plain

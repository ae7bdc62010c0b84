"""An audit as a table for people and as JSON for programs."""

from __future__ import annotations

import json
import shutil
import textwrap
from typing import Any, TextIO

from google.protobuf import json_format
from rich import box
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.audit import report
from tileops.proto import audit_pb2

# The width of a file or a pipe: no line is cut.
_UNLIMITED_WIDTH = 10_000
_STYLES = {
    "FAIL": "bold red",
    "ERROR": "magenta",
    "NO-VERDICT": "magenta",
    "WARN": "yellow",
    "EXEMPT": "cyan",
    "SKIPPED": "dim",
    "PASS": "green",
}


def write_table(found: audit_pb2.AuditReport, out: TextIO) -> None:
    """Writes one line per row, the reasons, and the premises and tolerances."""
    is_watched = out.isatty()
    width = shutil.get_terminal_size().columns if is_watched else _UNLIMITED_WIDTH
    console = rich_console.Console(file=out, width=width, highlight=False, soft_wrap=not is_watched)
    table = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, justify in (
        ("verdict", "left"),
        ("op", "left"),
        ("case", "left"),
        ("implementation", "left"),
        ("kernels", "right"),
        ("declared read", "right"),
        ("measured read", "right"),
        ("ratio", "right"),
        ("measured write", "right"),
        ("premises", "left"),
    ):
        table.add_column(title, justify=justify, no_wrap=True)
    rows = report.in_order(found.rows)
    for row in rows:
        verdict, ratio = report.name(row.verdict), report.ratio(row)
        table.add_row(
            rich_text.Text(verdict, style=_STYLES[verdict]),
            row.op,
            row.case_id,
            row.implementation,
            str(row.kernels or ""),
            _count(row, "declared_read_bytes"),
            _count(row, "measured_read_bytes"),
            "" if ratio is None else f"{ratio:.4f}",
            _count(row, "measured_write_bytes"),
            ", ".join(str(premise + 1) for premise in row.premises),
        )
    console.print(table)
    for line in _notes(found, rows):
        console.print(rich_text.Text(textwrap.fill(line, width, subsequent_indent="    ") if is_watched else line))


def _notes(found: audit_pb2.AuditReport, rows: list[audit_pb2.AuditRow]) -> list[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.reason:
            where = f" (when {row.exemption_condition})" if row.exemption_condition else ""
            reasons.setdefault((report.name(row.verdict), f"{row.reason}{where}"), []).append(f"{row.op} {row.case_id}")
    lines = [
        f"{verdict} {cases[0] if len(cases) == 1 else f'{len(cases)} rows'}: {reason}"
        for (verdict, reason), cases in reasons.items()
    ]
    lines += [f"no row of {one.op} takes the branch {one.branch}" for one in found.unreached]
    lines += list(found.notes)
    limits = found.tolerances
    lines += [
        *([""] if lines else []),
        f"Reads in bytes. FAIL: below {1 - limits.shortfall:g} of the declared reads. WARN: above {1 + limits.excess:g} of"
        f" them plus {limits.kernel_overhead_bytes} bytes per kernel. Writes are shown but never judged: counters miss what"
        " is still in the L2 when a kernel ends.",
        *(f"Premise {at}: {premise}." for at, premise in enumerate(found.premises, start=1)),
        "",
        _where(found)
        + ", ".join(f"{number} {verdict}" for verdict, number in report.counts(found.rows).items() if number),
    ]
    return lines


def _where(found: audit_pb2.AuditReport) -> str:
    parts = [found.device_name]
    parts += [f"driver {found.driver_version}"] if found.driver_version else []
    parts += [f"ncu {found.profiler_version}"] if found.profiler_version else []
    return f"{', '.join(filter(None, parts))}: " if any(parts) else ""


def _count(row: audit_pb2.AuditRow, field: str) -> str:
    return f"{getattr(row, field):,}" if row.HasField(field) else ""


def write_json(found: audit_pb2.AuditReport, out: TextIO) -> None:
    """Writes the report as JSON, one row per line. Counts are numbers, an absent reading is null."""
    head = {
        "device_name": found.device_name,
        "driver_version": found.driver_version,
        "profiler_version": found.profiler_version,
        "torch_version": found.torch_version,
        "project_revision": found.project_revision,
        "premises": list(found.premises),
        "tolerances": {
            field.name: getattr(found.tolerances, field.name) for field in found.tolerances.DESCRIPTOR.fields
        },
        "summary": report.counts(found.rows),
        "unreached": [json_format.MessageToDict(one) for one in found.unreached],
        "notes": list(found.notes),
    }
    out.write("{\n")
    out.writelines(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in head.items())
    rows = ",\n".join(json.dumps(row_as_dict(row), allow_nan=False) for row in report.in_order(found.rows))
    out.write(f'"rows": [\n{rows}\n]}}\n' if rows else '"rows": []}\n')


def row_as_dict(row: audit_pb2.AuditRow) -> dict[str, Any]:
    """Returns every field of a row: the verdict by name, None for an absent reading."""
    plain: dict[str, Any] = {}
    for field in row.DESCRIPTOR.fields:
        value = getattr(row, field.name)
        if field.name == "verdict":
            plain[field.name] = report.name(value)
        elif field.name == "data_terms":
            plain[field.name] = dict(sorted(value.items()))
        elif field.has_presence and not row.HasField(field.name):
            plain[field.name] = None
        else:
            plain[field.name] = value if isinstance(value, (int, str, float)) else list(value)
    plain["ratio"] = report.ratio(row)
    return plain

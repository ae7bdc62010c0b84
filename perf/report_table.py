"""The report as a table for people: a terminal's colours and width respected."""

import dataclasses
import shutil
import statistics
from collections.abc import Callable, Sequence
from typing import TextIO

from rich import box
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.perf import report_rows
from tileops.proto import roofline_pb2

# Where nobody watches the width (a file, a pipe), no line is cut.
_UNLIMITED_WIDTH = 10_000
# Characters that a name column keeps before another column has to give way.
_MIN_NAME_WIDTH = 14
# A space either side of the line that a table could draw between columns.
_COLUMN_GAP = 3

_STYLES = {
    roofline_pb2.VERDICT_FORMULA_ERROR: "bold red",
    roofline_pb2.VERDICT_BLANK: "dim",
    roofline_pb2.VERDICT_LATENCY_BOUND: "cyan",
    roofline_pb2.VERDICT_ANOMALY: "magenta",
    roofline_pb2.VERDICT_AT_CEILING: "green",
    roofline_pb2.VERDICT_BELOW: "",
}


@dataclasses.dataclass(frozen=True)
class _Column:
    """One column of the table.

    Attributes:
      title: Its head.
      cell: Text of a row's cell.
      is_name: Whether it may be cut short; others are shown whole or not at all.
      is_number: Whether it is aligned to the right.
      is_measured: Whether a prediction has nothing to put here.
      is_optional: Whether it is left out when all its cells are empty.
      yields: In which order columns give way on a narrow terminal; 0 never.
    """

    title: str
    cell: Callable[[roofline_pb2.Row], str]
    is_name: bool = False
    is_number: bool = False
    is_measured: bool = False
    is_optional: bool = False
    yields: int = 0


class _Filled:
    """A column with its cells.

    Attributes:
      column: The column.
      cells: Text of its cell in each row.
      width: Characters of the widest, the head included.
      least_width: Characters under which it is not shown.
    """

    def __init__(self, column: _Column, rows: Sequence[roofline_pb2.Row]):
        self.column = column
        self.cells = [column.cell(row) for row in rows]
        self.width = max(map(len, [column.title, *self.cells]))
        self.least_width = (
            min(self.width, _MIN_NAME_WIDTH) if column.is_name else self.width
        )


_COLUMNS = (
    _Column("op", lambda row: row.op, is_name=True),
    _Column("case", lambda row: row.case_id, is_name=True),
    _Column(
        "implementation", lambda row: row.implementation, is_optional=True, yields=2
    ),
    _Column(
        "time",
        lambda row: _time(row, "actual_time_s"),
        is_number=True,
        is_measured=True,
        yields=6,
    ),
    _Column("SOL time", lambda row: _time(row, "sol_time_s"), is_number=True, yields=5),
    _Column(
        "headroom",
        lambda row: _time(row, "headroom_s"),
        is_number=True,
        is_measured=True,
        is_optional=True,
        yields=3,
    ),
    _Column(
        "efficiency",
        lambda row: _percent(row.efficiency if row.HasField("efficiency") else None),
        is_number=True,
        is_measured=True,
    ),
    _Column("bound", lambda row: report_rows.enum_name(row, "bound") or "", yields=4),
    _Column("verdict", lambda row: _verdict(row)),
    _Column("note", lambda row: row.message, is_name=True, is_optional=True, yields=1),
)


def write_table(report: roofline_pb2.Report, out: TextIO) -> None:
    """Writes head, rows, family summary, formula errors and health."""
    watched = out.isatty()
    terminal = shutil.get_terminal_size()
    console = rich_console.Console(
        file=out,
        # Both, since rich takes a terminal that can do little for 80 columns wide.
        width=terminal.columns if watched else _UNLIMITED_WIDTH,
        height=terminal.lines,
        force_terminal=None if watched else False,
        # Nothing in a report is rich's markup; "[" is a bracket.
        markup=False,
        emoji=False,
        highlight=False,
    )
    for line in _head(report):
        console.print(line, style="bold" if watched else None)
    if report.rows:
        console.print(_row_table(report, console.width))
        console.print()
        console.print(_family_table(report))
        console.print()
    _print_foot(report, console)


def _head(report: roofline_pb2.Report) -> list[str]:
    profile = report.profile
    lines = []
    for run in report.runs:
        device = run.device_name or run.device_kind or "unknown device"
        facts = [device, run.file, f"{run.records} records", run.started_at[:10]]
        if run.driver_version:
            facts.append(f"driver {run.driver_version}")
        if run.torch_version:
            facts.append(f"torch {run.torch_version}")
        lines.append("  ".join(fact for fact in facts if fact))
    if report.is_prediction:
        lines.append(
            f"predicted for {profile.gpu}: SOL times are bounds, nothing was measured"
            " there"
        )
    elif report.HasField("profile"):
        lines.append(f"priced against the profile of {profile.gpu}")
    else:
        lines.append("no profile matches the device: nothing is priced")
    return lines


def _row_table(
    report: roofline_pb2.Report, console_width: int
) -> rich_table.Table:
    filled = _fitting_columns(report, console_width)
    table = _new_table()
    for each, width in zip(filled, _column_widths(filled, console_width)):
        table.add_column(
            each.column.title,
            no_wrap=True,
            overflow="ellipsis",
            justify="right" if each.column.is_number else "left",
            width=width,
        )
    for row, *cells in zip(report.rows, *(each.cells for each in filled)):
        table.add_row(*map(rich_text.Text, cells), style=_STYLES[row.verdict])
    return table


def _new_table() -> rich_table.Table:
    return rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def _fitting_columns(
    report: roofline_pb2.Report, console_width: int
) -> list[_Filled]:
    """Returns the columns that fit the width, leaving out the dispensable first."""
    filled = [
        _Filled(column, report.rows)
        for column in _COLUMNS
        if not (column.is_measured and report.is_prediction)
    ]
    filled = [
        each for each in filled if any(each.cells) or not each.column.is_optional
    ]
    for each in sorted(filled, key=lambda each: each.column.yields):
        if each.column.yields and _least_table_width(filled) > console_width:
            filled.remove(each)
    return filled


def _least_table_width(filled: Sequence[_Filled]) -> int:
    return sum(each.least_width for each in filled) + _COLUMN_GAP * (len(filled) - 1)


def _column_widths(filled: Sequence[_Filled], console_width: int) -> list[int]:
    """Returns each column's width: names share what the others leave.

    Each name has its least width; what is left goes to each in turn, as far as
    it has use for it.
    """
    left = max(0, console_width - _least_table_width(filled))
    widths = []
    for each in filled:
        given = min(each.width - each.least_width, left)
        widths.append(each.least_width + given)
        left -= given
    return widths


def _family_table(report: roofline_pb2.Report) -> rich_table.Table:
    by_family: dict[str, list[roofline_pb2.Row]] = {}
    for row in report.rows:
        by_family.setdefault(row.family, []).append(row)
    table = _new_table()
    table.add_column("family", no_wrap=True, overflow="ellipsis")
    if report.is_prediction:
        titles, cells = ("rows", "total SOL time"), _predicted_cells
    else:
        titles, cells = (
            ("rows", "at ceiling", "median efficiency", "total headroom"),
            _measured_cells,
        )
    for title in titles:
        table.add_column(title, justify="right")
    for family, rows in sorted(by_family.items()):
        table.add_row(rich_text.Text(family or "(none)"), *cells(rows))
    return table


def _predicted_cells(rows: Sequence[roofline_pb2.Row]) -> list[str]:
    bounded = [row.sol_time_s for row in rows if row.HasField("sol_time_s")]
    return [str(len(rows)), _microseconds(sum(bounded) if bounded else None)]


def _measured_cells(rows: Sequence[roofline_pb2.Row]) -> list[str]:
    # An impossible row says nothing about its family.
    priced = [
        row
        for row in rows
        if row.HasField("efficiency")
        and row.verdict != roofline_pb2.VERDICT_FORMULA_ERROR
    ]
    at_ceiling = [
        row for row in rows if row.verdict == roofline_pb2.VERDICT_AT_CEILING
    ]
    median = headroom_s = None
    if priced:
        median = statistics.median(row.efficiency for row in priced)
        headroom_s = sum(max(row.headroom_s, 0.0) for row in priced)
    return [
        str(len(rows)),
        str(len(at_ceiling)),
        _percent(median),
        _microseconds(headroom_s),
    ]


def _print_foot(
    report: roofline_pb2.Report, console: rich_console.Console
) -> None:
    summary = report.summary
    counts = [
        f"{getattr(summary, field.name)} {field.name.replace('_', ' ')}"
        for field in summary.DESCRIPTOR.fields
        if field.name == "rows" or getattr(summary, field.name)
    ]
    console.print(", ".join(counts))
    for run in report.runs:
        for problem in run.problems:
            console.print(f"{run.file}: {problem}", style="yellow")
    for row in report.rows:
        for breach in row.breaches:
            console.print(
                f"formula error: {_name(row)}: {_breach(breach)}", style="bold red"
            )
    failed = report.health == roofline_pb2.HEALTH_FAILED
    console.print(
        f"health: {report_rows.enum_name(report, 'health')}",
        style="bold red" if failed else "green",
    )


def _name(row: roofline_pb2.Row) -> str:
    return " ".join(
        part for part in (row.op, row.case_id, row.implementation) if part
    )


def _breach(breach: roofline_pb2.Breach) -> str:
    unit = "TB/s" if breach.roof == "hbm" else "TFLOP/s"
    return (
        f"implies {breach.implied_per_s / 1e12:.4g} {unit} of {breach.roof}, whose"
        f" theoretical ceiling is {breach.theoretical_per_s / 1e12:.4g} {unit}"
    )


def _time(row: roofline_pb2.Row, field: str) -> str:
    return _microseconds(getattr(row, field) if row.HasField(field) else None)


def _verdict(row: roofline_pb2.Row) -> str:
    verdict = report_rows.enum_name(row, "verdict").replace("_", " ")
    reason = report_rows.enum_name(row, "blank_reason")
    return f"{verdict}: {reason}" if reason else verdict


def _microseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    # A bound of next to nothing is still not zero.
    if 0 < seconds < 5e-9:
        return "<0.01 us"
    return f"{seconds * 1e6:,.2f} us"


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1%}"

"""The report as a table for people: a terminal's colours and width respected."""

import dataclasses
import re
import shutil
from collections.abc import Callable, Sequence
from typing import TextIO

from rich import box
from rich import cells
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.perf import profiles
from tileops.perf import report_summary
from tileops.perf import report_text
from tileops.proto import roofline_pb2

# Where nobody watches the width (a file, a pipe), no line is cut.
_UNLIMITED_WIDTH = 10_000
# A note wraps within its column; narrower than this it reads badly.
_MIN_NOTE_WIDTH = 30
# A space either side of the line that a table could draw between columns.
_COLUMN_GAP = 3
# Where a row takes two lines, its readings stand a little to the right.
_INDENT = "  "
_TIGHT_GAP = "  "

_UNIT_SUFFIX = " us"
_OP_SUFFIX = "FwdOp"
_DTYPES_AT_END = re.compile(r"(-b?float\d+)+$")
_BREVITIES = f"names without {_OP_SUFFIX}, bf16/f16/f32 for the dtypes, times in us"

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
      is_name: Whether it says which row this is; a row of two lines has these in
        the first.
      is_number: Whether it is aligned to the right.
      is_measured: Whether a prediction has nothing to put here.
      is_optional: Whether it is left out when all its cells are empty.
      yields: In which order columns are hidden on a terminal that is too narrow
        for rows of two lines; 0 never.
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
      width: Character cells of the widest, the head included.
    """

    def __init__(self, column: _Column, texts: Sequence[str]):
        self.column = column
        self.cells = texts
        self.width = max(map(cells.cell_len, [column.title, *texts]))

    def padded(self, text: str) -> str:
        """Returns the text as wide as the column."""
        space = " " * (self.width - cells.cell_len(text))
        return space + text if self.column.is_number else text + space


_OP = _Column("op", lambda row: row.op, is_name=True)
_CASE = _Column("case", lambda row: row.case_id, is_name=True)
_NOTE = _Column("note", report_text.note, is_optional=True)

_COLUMNS = (
    _OP,
    _CASE,
    _Column(
        "implementation",
        lambda row: row.implementation,
        is_name=True,
        is_optional=True,
    ),
    _Column(
        "time",
        lambda row: _time(row, "actual_time_s"),
        is_number=True,
        is_measured=True,
        yields=4,
    ),
    _Column("SOL time", lambda row: _time(row, "sol_time_s"), is_number=True, yields=3),
    _Column(
        "headroom",
        lambda row: _time(row, "headroom_s"),
        is_number=True,
        is_measured=True,
        is_optional=True,
        yields=1,
    ),
    _Column(
        "efficiency",
        lambda row: _percent(row.efficiency if row.HasField("efficiency") else None),
        is_number=True,
        is_measured=True,
        yields=5,
    ),
    _Column("bound", lambda row: report_text.enum_name(row, "bound") or "", yields=2),
    _Column("verdict", lambda row: _verdict(row)),
    _NOTE,
)


class _Console(rich_console.Console):
    """Rich's console, but for its habit of exiting with 1 where a reader left."""

    def on_broken_pipe(self) -> None:
        raise  # The BrokenPipeError that this is called for.


def write_table(report: roofline_pb2.Report, out: TextIO) -> None:
    """Writes head, rows, family summary, formula errors and health."""
    watched = out.isatty()
    terminal = shutil.get_terminal_size()
    console = _Console(
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
        console.print(report_text.printable(line), style="bold" if watched else None)
    if report.rows:
        _print_rows(report, console)
        console.print()
        console.print(_family_table(report))
        console.print()
    _print_foot(report, console)


def _head(report: roofline_pb2.Report) -> list[str]:
    profile = report.profile
    lines = []
    for run in report.runs:
        device = run.device_name or run.device_kind or "unknown device"
        records = report_text.counted(run.records, "record")
        facts = [device, run.file, records, run.started_at[:10]]
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
    elif report.runs and all(run.device_kind == "meta" for run in report.runs):
        lines.append(
            'prices alone, nothing was measured: add --predict --profile="NVIDIA H200"'
            " for each row's SOL time on that GPU"
        )
    else:
        lines.append("no profile matches the device: nothing is priced")
    assumption = profiles.assumption_in_words(profile)
    if assumption:
        lines.append(assumption)
    return lines


def _print_rows(report: roofline_pb2.Report, console: rich_console.Console) -> None:
    """Prints the rows, in the first form that the width has room for.

    One line a row; the same with brief names; two lines; the same with brief
    names. No form cuts a name: rows that differ must not look alike.
    """
    full = _fill(report, report.rows)
    brief = _brief(full)
    for filled in (full, brief):
        if _one_line_width(filled) <= console.width:
            console.print(_one_line_table(report, filled, console.width))
            break
    else:
        filled = full if _two_line_width(full) <= console.width else brief
        _print_two_lines(report, filled, console)
    if filled is brief:
        console.print(f"({_BREVITIES})")


def _new_table() -> rich_table.Table:
    return rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)


def _fill(
    report: roofline_pb2.Report, rows: Sequence[roofline_pb2.Row]
) -> list[_Filled]:
    filled = [
        _Filled(column, [report_text.printable(column.cell(row)) for row in rows])
        for column in _COLUMNS
        if not (column.is_measured and report.is_prediction)
    ]
    return [each for each in filled if any(each.cells) or not each.column.is_optional]


def _brief(filled: Sequence[_Filled]) -> list[_Filled]:
    """Returns the columns with shorter names and with times without their unit.

    Names that would no longer differ stay as they are.
    """
    ops, cases = filled[0].cells, filled[1].cells
    brief_ops = [op.removesuffix(_OP_SUFFIX) or op for op in ops]
    brief_cases = [
        _DTYPES_AT_END.sub(lambda end: end[0].replace("float", "f"), case)
        for case in cases
    ]
    if len(set(zip(brief_ops, brief_cases))) < len(set(zip(ops, cases))):
        brief_ops, brief_cases = ops, cases
    texts = {_OP: brief_ops, _CASE: brief_cases}
    return [
        _Filled(
            each.column,
            texts.get(each.column)
            or [
                cell.removesuffix(_UNIT_SUFFIX) if each.column.is_number else cell
                for cell in each.cells
            ],
        )
        for each in filled
    ]


def _one_line_width(filled: Sequence[_Filled]) -> int:
    """Returns the least width of a table in which only notes wrap."""
    widths = [
        min(each.width, _MIN_NOTE_WIDTH) if each.column is _NOTE else each.width
        for each in filled
    ]
    return sum(widths) + _COLUMN_GAP * (len(filled) - 1)


def _one_line_table(
    report: roofline_pb2.Report, filled: Sequence[_Filled], console_width: int
) -> rich_table.Table:
    spare = console_width - _one_line_width(filled)
    table = _new_table()
    for each in filled:
        is_note = each.column is _NOTE
        table.add_column(
            each.column.title,
            no_wrap=not is_note,
            overflow="fold",
            justify="right" if each.column.is_number else "left",
            width=min(each.width, _MIN_NOTE_WIDTH + spare) if is_note else each.width,
        )
    for row, *texts in zip(report.rows, *(each.cells for each in filled)):
        table.add_row(*map(rich_text.Text, texts), style=_style(row))
    return table


def _line_width(filled: Sequence[_Filled]) -> int:
    return sum(each.width for each in filled) + len(_TIGHT_GAP) * (len(filled) - 1)


def _two_line_width(filled: Sequence[_Filled]) -> int:
    """Returns the least width for a line of names above a line of readings."""
    names, readings, _ = _names_readings_notes(filled)
    return max(_line_width(names), len(_INDENT) + _line_width(readings))


def _names_readings_notes(
    filled: Sequence[_Filled],
) -> tuple[list[_Filled], list[_Filled], list[_Filled]]:
    return (
        [each for each in filled if each.column.is_name],
        [each for each in filled if not each.column.is_name and each.column != _NOTE],
        [each for each in filled if each.column is _NOTE],
    )


def _print_two_lines(
    report: roofline_pb2.Report,
    filled: Sequence[_Filled],
    console: rich_console.Console,
) -> None:
    """Prints each row as its names, its readings below them, and then its note."""
    names, readings, notes = _names_readings_notes(filled)
    hidden = 0
    for each in sorted(readings, key=lambda each: each.column.yields):
        too_wide = len(_INDENT) + _line_width(readings) > console.width
        if each.column.yields and too_wide:
            readings.remove(each)
            hidden += 1
    aligned = _line_width(names) <= console.width

    def print_lines(style: str, text: Callable[[_Filled], str]) -> None:
        shown = [each.padded(text(each)) if aligned else text(each) for each in names]
        lines = [
            _TIGHT_GAP.join(shown).rstrip(),
            _INDENT + _TIGHT_GAP.join(each.padded(text(each)) for each in readings),
            *(_INDENT + text(each) for each in notes if text(each)),
        ]
        for line in lines:
            console.print(rich_text.Text(line.rstrip()), style=style, overflow="fold")

    print_lines("bold", lambda each: each.column.title)
    console.rule(style="")
    for index, row in enumerate(report.rows):
        print_lines(_style(row), lambda each: each.cells[index])
    if hidden:
        console.print(
            f"{report_text.counted(hidden, 'column')} hidden: widen the terminal or"
            " use --format=csv",
            style="yellow",
        )


def _family_table(report: roofline_pb2.Report) -> rich_table.Table:
    table = _new_table()
    table.add_column("family", no_wrap=True, overflow="ellipsis")
    titles = ("rows", "at ceiling", "median efficiency", "total headroom")
    if report.is_prediction:
        titles = ("rows", "total SOL time")
    for title in titles:
        table.add_column(title, justify="right")
    for family in report_summary.Summaries(report.rows).families():
        if report.is_prediction:
            cells = (_microseconds(family.sol_time_s),)
        else:
            cells = (
                str(family.at_ceiling),
                _percent(family.median_efficiency),
                _microseconds(family.headroom_s),
            )
        name = rich_text.Text(report_text.printable(family.name) or "(none)")
        table.add_row(name, str(family.rows), *cells)
    return table


def _print_foot(
    report: roofline_pb2.Report, console: rich_console.Console
) -> None:
    summary = report.summary
    counts = {
        field.name.replace("_", " "): getattr(summary, field.name)
        for field in summary.DESCRIPTOR.fields
        if field.name != "rows"
    }
    if report.is_prediction:
        predicted = sum(map(report_text.is_predicted, report.rows))
        counts = {"predicted": predicted, "blank": summary.rows - predicted}
    parts = [report_text.counted(summary.rows, "row")]
    parts += [f"{count} {name}" for name, count in counts.items() if count]
    console.print(", ".join(parts))
    for run in report.runs:
        for problem in run.problems:
            line = report_text.printable(f"{run.file}: {problem}")
            console.print(line, style="yellow")
    for row in report.rows:
        for breach in row.breaches:
            line = report_text.printable(f"{report_text.row_name(row)}: {report_text.breach(breach)}")
            console.print(f"formula error: {line}", style="bold red")
    failed = report.health == roofline_pb2.HEALTH_FAILED
    console.print(
        f"health: {report_text.enum_name(report, 'health')}",
        style="bold red" if failed else "green",
    )


def _time(row: roofline_pb2.Row, field: str) -> str:
    return _microseconds(getattr(row, field) if row.HasField(field) else None)


def _style(row: roofline_pb2.Row) -> str:
    return "" if report_text.is_predicted(row) else _STYLES[row.verdict]


def _verdict(row: roofline_pb2.Row) -> str:
    if report_text.is_predicted(row):
        return "predicted"
    verdict = report_text.enum_name(row, "verdict").replace("_", " ")
    reason = report_text.enum_name(row, "blank_reason")
    return f"{verdict}: {reason}" if reason else verdict


def _microseconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    # A bound of next to nothing is still not zero.
    if 0 < seconds < 5e-9:
        return f"<0.01{_UNIT_SUFFIX}"
    return f"{seconds * 1e6:,.2f}{_UNIT_SUFFIX}"


def _percent(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1%}"

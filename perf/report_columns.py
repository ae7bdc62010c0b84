"""The columns of the report's table: what stands in each, and how wide it is."""

import dataclasses
import re
from collections.abc import Callable, Sequence

from rich import cells

from tileops.perf import report_text
from tileops.proto import roofline_pb2

_UNIT_SUFFIX = " us"
_OP_SUFFIX = "FwdOp"
_DTYPES_AT_END = re.compile(r"(-b?float\d+)+$")
BREVITIES = f"names without {_OP_SUFFIX}, bf16/f16/f32 for the dtypes, times in us"

_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_MOST_BARS = 12

_STYLES = {
    roofline_pb2.VERDICT_FORMULA_ERROR: "bold red",
    roofline_pb2.VERDICT_BLANK: "dim",
    roofline_pb2.VERDICT_LATENCY_BOUND: "cyan",
    roofline_pb2.VERDICT_ANOMALY: "magenta",
    roofline_pb2.VERDICT_AT_CEILING: "green",
    roofline_pb2.VERDICT_BELOW: "",
}


@dataclasses.dataclass(frozen=True)
class Column:
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


class Filled:
    """A column with its cells.

    Attributes:
      column: The column.
      cells: Text of its cell in each row.
      width: Character cells of the widest, the head included.
    """

    def __init__(self, column: Column, texts: Sequence[str]):
        self.column = column
        self.cells = texts
        self.width = max(map(cells.cell_len, [column.title, *texts]))

    def padded(self, text: str) -> str:
        """Returns the text as wide as the column."""
        space = " " * (self.width - cells.cell_len(text))
        return space + text if self.column.is_number else text + space


_OP = Column("op", lambda row: row.op, is_name=True)
_CASE = Column("case", lambda row: row.case_id, is_name=True)
NOTE = Column("note", report_text.note, is_optional=True)

_COLUMNS = (
    _OP,
    _CASE,
    Column(
        "implementation",
        lambda row: row.implementation,
        is_name=True,
        is_optional=True,
    ),
    Column(
        "time",
        lambda row: _time(row, "actual_time_s"),
        is_number=True,
        is_measured=True,
        yields=4,
    ),
    Column("SOL time", lambda row: _time(row, "sol_time_s"), is_number=True, yields=3),
    Column(
        "headroom",
        lambda row: _time(row, "headroom_s"),
        is_number=True,
        is_measured=True,
        is_optional=True,
        yields=1,
    ),
    Column(
        "efficiency",
        lambda row: percent(row.efficiency if row.HasField("efficiency") else None),
        is_number=True,
        is_measured=True,
        yields=5,
    ),
    Column("bound", lambda row: report_text.enum_name(row, "bound") or "", yields=2),
    Column("verdict", lambda row: _verdict(row)),
    Column(
        "course",
        lambda row: _course(row.history),
        is_measured=True,
        is_optional=True,
        yields=6,
    ),
    NOTE,
)


def fill(rows: Sequence[roofline_pb2.Row], is_prediction: bool) -> list[Filled]:
    """Returns the columns that have something to say about the rows."""
    filled = [
        Filled(column, [report_text.printable(column.cell(row)) for row in rows])
        for column in _COLUMNS
        if not (column.is_measured and is_prediction)
    ]
    return [each for each in filled if any(each.cells) or not each.column.is_optional]


def brief(filled: Sequence[Filled]) -> list[Filled]:
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
        Filled(
            each.column,
            texts.get(each.column)
            or [
                cell.removesuffix(_UNIT_SUFFIX) if each.column.is_number else cell
                for cell in each.cells
            ],
        )
        for each in filled
    ]


def _time(row: roofline_pb2.Row, field: str) -> str:
    return microseconds(getattr(row, field) if row.HasField(field) else None)


def style(row: roofline_pb2.Row) -> str:
    """Returns how rich shows the row on a terminal with colours."""
    return "" if report_text.is_predicted(row) else _STYLES[row.verdict]


def _verdict(row: roofline_pb2.Row) -> str:
    if report_text.is_predicted(row):
        return "predicted"
    verdict = report_text.enum_name(row, "verdict").replace("_", " ")
    reason = report_text.enum_name(row, "blank_reason")
    return f"{verdict}: {reason}" if reason else verdict


def _course(history: Sequence[roofline_pb2.HistoryPoint]) -> str:
    """Returns a row's times over several runs, and how the last one changed.

    The least of them is the lowest bar; "" where there is one time alone.
    """
    times = [point.actual_time_s for point in history]
    if len(times) < 2:
        return ""
    low, high = min(times), max(times)
    steps = len(_BARS) - 1
    bars = [
        _BARS[round((time - low) / (high - low) * steps) if high > low else 0]
        for time in times
    ]
    return f"{''.join(bars[-_MOST_BARS:])} {times[-1] / times[-2] - 1:+.1%}"


def microseconds(seconds: float | None) -> str:
    """Returns a time as the table writes it; "" for an absent one."""
    if seconds is None:
        return ""
    # A bound of next to nothing is still not zero.
    if 0 < seconds < 5e-9:
        return f"<0.01{_UNIT_SUFFIX}"
    return f"{seconds * 1e6:,.2f}{_UNIT_SUFFIX}"


def percent(ratio: float | None) -> str:
    """Returns a ratio in per cent; "" for an absent one."""
    return "" if ratio is None else f"{ratio:.1%}"

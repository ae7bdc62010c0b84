"""The columns of the report's table: what stands in each."""

from collections.abc import Sequence

from tileops.perf.report import table_columns, text
from tileops.perf.report.table_columns import Column
from tileops.perf.roof import pricing
from tileops.proto import roofline_pb2

_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_MOST_BARS = 12

# Decimal places of a percentage that lies beside a line between verdicts.
_MOST_DIGITS = 6

_STYLES = {
    roofline_pb2.VERDICT_FORMULA_ERROR: "bold red",
    roofline_pb2.VERDICT_BLANK: "dim",
    roofline_pb2.VERDICT_LATENCY_BOUND: "cyan",
    roofline_pb2.VERDICT_ANOMALY: "magenta",
    roofline_pb2.VERDICT_AT_CEILING: "green",
    roofline_pb2.VERDICT_BELOW: "",
}


_TIME = Column("time", lambda row: _time(row, "actual_time_s"), is_number=True, yields=4)
_HEADROOM = Column("headroom", lambda row: _time(row, "headroom_s"), is_number=True, is_optional=True, yields=1)
_EFFICIENCY = Column(
    "efficiency", lambda row: percent(row.efficiency if row.HasField("efficiency") else None), is_number=True, yields=5
)
_COURSE = Column("course", lambda row: _course(row.history), is_optional=True, yields=6)

_COLUMNS = (
    Column("op", lambda row: row.op, is_name=True),
    Column("case", lambda row: row.case_id, is_name=True),
    Column("implementation", lambda row: row.implementation, is_name=True, is_optional=True),
    _TIME,
    Column("SOL time", lambda row: _time(row, "sol_time_s"), is_number=True, yields=3),
    _HEADROOM,
    _EFFICIENCY,
    Column("bound", lambda row: text.enum_name(row, "bound") or "", yields=2),
    Column("verdict", lambda row: _verdict(row)),
    _COURSE,
    Column("note", text.note, is_note=True, is_optional=True),
)
# What a prediction has nothing to put in.
_MEASURED = (_TIME, _HEADROOM, _EFFICIENCY, _COURSE)


def fill(rows: Sequence[roofline_pb2.Row], is_prediction: bool) -> list[table_columns.Filled]:
    """Returns the columns that have something to say about the rows."""
    columns = [column for column in _COLUMNS if not (is_prediction and column in _MEASURED)]
    return table_columns.fill(columns, rows)


def _time(row: roofline_pb2.Row, field: str) -> str:
    return microseconds(getattr(row, field) if row.HasField(field) else None)


def style(row: roofline_pb2.Row) -> str:
    """Returns how rich shows the row on a terminal with colours."""
    return "" if text.is_predicted(row) else _STYLES[row.verdict]


def _verdict(row: roofline_pb2.Row) -> str:
    if text.is_predicted(row):
        return "predicted"
    return text.verdict(row)


def _course(history: Sequence[roofline_pb2.HistoryPoint]) -> str:
    """Returns a row's times over several runs, and how the last one changed.

    The least of them is the lowest bar; "" where there is one time alone.
    """
    times = [point.actual_time_s for point in history]
    if len(times) < 2:
        return ""
    low, high = min(times), max(times)
    steps = len(_BARS) - 1
    bars = [_BARS[round((time - low) / (high - low) * steps) if high > low else 0] for time in times]
    return f"{''.join(bars[-_MOST_BARS:])} {times[-1] / times[-2] - 1:+.1%}"


def microseconds(seconds: float | None) -> str:
    """Returns a time as the table writes it; "" for an absent one."""
    if seconds is None:
        return ""
    # A bound of next to nothing is still not zero.
    if 0 < seconds < 5e-9:
        return f"<0.01{table_columns.UNIT_SUFFIX}"
    return f"{seconds * 1e6:,.2f}{table_columns.UNIT_SUFFIX}"


def percent(ratio: float | None) -> str:
    """Returns a ratio in per cent; "" for an absent one.

    With one decimal place, and with more beside the lines between verdicts: what is
    below one does not read as on it.
    """
    if ratio is None:
        return ""
    digits = 1
    while digits < _MOST_DIGITS and _sides(float(f"{ratio * 100:.{digits}f}") / 100) != _sides(ratio):
        digits += 1
    return f"{ratio * 100:.{digits}f}%"


def _sides(ratio: float) -> tuple[bool, bool]:
    return ratio >= pricing.AT_CEILING_EFFICIENCY, ratio > pricing.ANOMALY_EFFICIENCY

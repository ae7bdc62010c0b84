"""The report as a table for people: its rows, its summaries and its health."""

from collections.abc import Iterable, Sequence
from typing import TextIO

from tileops.perf.report import columns, text
from tileops.perf.report import summary as report_summary
from tileops.perf.report.columns import Column
from tileops.perf.roof import pricing, profiles
from tileops.proto import roofline_pb2
from tileops.tools.cli import words

_OPS_TO_WIN = 5
# A list of more impossible rows helps nobody; the rows themselves say it, too.
_MOST_ERRORS_LISTED = 50
_TOTALS = (
    "Totals are of the counted rows: latency-bound, impossible and blank rows are left out. Total headroom is that of all"
    " these rows, time to win that of the rows below the ceiling alone."
)

_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_MOST_BARS = 12
# The most decimal places of a percentage; a ratio near a line between verdicts needs more than one.
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
    Column("verdict", lambda row: "predicted" if text.is_predicted(row) else text.verdict(row)),
    _COURSE,
    Column("note", text.note, is_note=True, is_optional=True),
)
# Columns that a prediction has nothing for.
_MEASURED = (_TIME, _HEADROOM, _EFFICIENCY, _COURSE)


def write_table(
    head: roofline_pb2.Report,
    rows: Iterable[roofline_pb2.Row],
    out: TextIO,
    top: int | None = None,
    winnable_first: bool = False,
) -> None:
    """Writes head, rows, family summary, formula errors, and health with what failed.

    Args:
      head: The report but for its rows.
      rows: The rows, in order; no more than `columns.MOST_ROWS` of them are kept.
      out: Where to; only terminals get colours.
      top: How many rows to show; None for all. Sums and counts are of all rows.
      winnable_first: Whether rows below the ceiling come first, for a report by headroom. The other kernels are done, or
        their times too short to judge.
    """
    is_cut = top is not None and top < head.summary.rows
    winnable_first = winnable_first and is_cut and not head.is_prediction
    most = columns.MOST_ROWS if top is None else min(top, columns.MOST_ROWS)
    console = columns.console(out)
    for line in _head(head):
        console.print(words.printable(line), style="bold" if out.isatty() else None)
    shown: list[roofline_pb2.Row] = []
    others: list[roofline_pb2.Row] = []
    errors: list[roofline_pb2.Row] = []
    summaries = report_summary.Summaries()
    for row in rows:
        summaries.add(row)
        kept = others if winnable_first and row.verdict != roofline_pb2.VERDICT_BELOW else shown
        if len(kept) < most:
            kept.append(row)
        if row.breaches and len(errors) < _MOST_ERRORS_LISTED:
            errors.append(row)
    winnable_first = winnable_first and bool(shown)
    shown += others[: most - len(shown)]
    if shown:
        _print_rows(shown, summaries, head.is_prediction, console)
        _print_left_out(len(shown), head.summary.rows, winnable_first, is_cut and most == top, console)
        console.print()
        _print_summaries(head, summaries, console)
    _print_foot(head, summaries, errors, console)


def _print_rows(
    shown: list[roofline_pb2.Row], summaries: report_summary.Summaries, is_prediction: bool, console: columns.Console
) -> None:
    """Prints rows by family: that of the first row first; within one, in their order."""
    by_family: dict[str, list[roofline_pb2.Row]] = {}
    for row in shown:
        by_family.setdefault(row.family, []).append(row)
    rows = [row for family in by_family.values() for row in family]
    groups = [
        columns.Group(_title(family, len(each), summaries.rows_of(family)) if len(by_family) > 1 else "", len(each))
        for family, each in by_family.items()
    ]
    shown_columns = [column for column in _COLUMNS if not (is_prediction and column in _MEASURED)]
    columns.print_rows(
        shown_columns, rows, ["" if text.is_predicted(row) else _STYLES[row.verdict] for row in rows], groups, console
    )


def _title(family: str, shown: int, rows: int) -> str:
    count = words.counted(rows, "row")
    return f"{family or '(no family)'} ({count if shown == rows else f'{shown} of {count}'})"


def _print_left_out(shown: int, rows: int, winnable_first: bool, by_flag: bool, console: columns.Console) -> None:
    count = rows - shown
    if count > 0 and by_flag:
        which = "rows with the most time to win" if winnable_first else "rows that come first by --sort"
        console.print(
            f"these are the {shown} {which}, of {rows}: --top=all shows all, --top=N the first N", style="yellow"
        )
    elif count > 0:
        console.print(
            f"{words.counted(count, 'more row')} left out, last in the order of --sort: --format=csv"
            " and json have them all, --op and --family make a report of fewer",
            style="yellow",
        )


def _head(report: roofline_pb2.Report) -> list[str]:
    profile = report.profile
    lines = [text.run_in_words(run) for run in report.runs]
    if report.is_prediction:
        lines.append(f"predicted for {profile.gpu}: SOL times are bounds, nothing was measured there")
    elif report.HasField("profile"):
        lines.append(f"priced against the profile of {profile.gpu}")
    elif report.runs and all(run.device_kind == "meta" for run in report.runs):
        lines.append(
            'only prices, nothing was measured: add --predict --profile="NVIDIA H200"'
            " for each row's SOL time on that GPU"
        )
    else:
        lines.append("no profile matches the device: nothing is priced")
    assumption = profiles.assumption_in_words(profile)
    if assumption:
        lines.append(assumption)
    return lines


def _print_summaries(head: roofline_pb2.Report, summaries: report_summary.Summaries, console: columns.Console) -> None:
    families = summaries.families()
    if head.is_prediction:
        bounds = [(each.name, str(each.rows), str(each.bounded), microseconds(each.sol_time_s)) for each in families]
        columns.print_summary(("family", "rows", "counted", "total SOL time"), bounds, console)
        console.print()
        return
    totals = [
        (
            each.name,
            str(each.rows),
            str(each.at_ceiling),
            str(each.counted),
            percent(each.median_efficiency),
            microseconds(each.headroom_s),
        )
        for each in families
    ]
    titles = ("family", "rows", "at ceiling", "counted", "median efficiency", "total headroom")
    columns.print_summary(titles, totals, console)
    if hint := text.summing_hint(head):
        console.print(hint, style="yellow")
    console.print()
    if ops := summaries.most_to_win(_OPS_TO_WIN):
        wins = [(op.name, str(op.rows), percent(op.median_efficiency), microseconds(op.to_win_s)) for op in ops]
        columns.print_summary(("most time to win", "rows", "median efficiency", "time to win"), wins, console)
        console.print()
    console.print(_TOTALS)
    console.print()


def _print_foot(
    head: roofline_pb2.Report,
    summaries: report_summary.Summaries,
    errors: list[roofline_pb2.Row],
    console: columns.Console,
) -> None:
    summary = head.summary
    counts = {
        field.name.replace("_", " "): getattr(summary, field.name)
        for field in summary.DESCRIPTOR.fields
        if field.name != "rows"
    }
    if head.is_prediction:
        counts = {"predicted": summaries.predicted, "blank": summary.rows - summaries.predicted}
    parts = [words.counted(summary.rows, "row")]
    parts += [f"{count} {name}" for name, count in counts.items() if count]
    console.print(", ".join(parts))
    for line in [*text.blank_hints(summaries.blanks), *text.problems(head.runs)]:
        console.print(words.printable(line), style="yellow")
    for row in errors:
        for breach in row.breaches:
            said = f"{text.row_name(row)}: {text.breach(breach)}"
            console.print(f"formula error: {words.printable(said)}", style="bold red")
    more = summary.formula_error - len(errors)
    if more > 0:
        console.print(f"and {more} more formula errors: --format=json has them all", style="bold red")
    lacks = any(getattr(head.outcomes, field.name) for field in head.outcomes.DESCRIPTOR.fields)
    failed = head.health == roofline_pb2.HEALTH_FAILED
    style = "bold red" if failed else "yellow" if lacks else "green"
    console.print(f"health: {text.health(head)}", style=style)


def _time(row: roofline_pb2.Row, field: str) -> str:
    return microseconds(getattr(row, field) if row.HasField(field) else None)


def _course(history: Sequence[roofline_pb2.HistoryPoint]) -> str:
    """Returns a row's times over several runs, and how the last one changed.

    The least time is the lowest bar; "" for a single time.
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
        return f"<0.01{columns.UNIT_SUFFIX}"
    return f"{seconds * 1e6:,.2f}{columns.UNIT_SUFFIX}"


def percent(ratio: float | None) -> str:
    """Returns a ratio in per cent; "" for an absent one.

    With one decimal place. Near a line between verdicts it has more, so that a ratio below
    the line is not shown as on it.
    """
    if ratio is None:
        return ""
    digits = 1
    while digits < _MOST_DIGITS and _sides(float(f"{ratio * 100:.{digits}f}") / 100) != _sides(ratio):
        digits += 1
    return f"{ratio * 100:.{digits}f}%"


def _sides(ratio: float) -> tuple[bool, bool]:
    return ratio >= pricing.AT_CEILING_EFFICIENCY, ratio > pricing.ANOMALY_EFFICIENCY

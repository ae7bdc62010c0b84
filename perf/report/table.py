"""The report as a table for people: a terminal's colours and width respected."""

from collections.abc import Iterable
from typing import TextIO

from rich import table as rich_table
from rich import text as rich_text

from tileops.perf.report import columns, layout, table_console, text
from tileops.perf.report import summary as report_summary
from tileops.perf.roof import profiles
from tileops.proto import roofline_pb2
from tileops.tools.cli import words

_OPS_TO_WIN = 5
# A list of more impossible rows helps nobody; the rows themselves say it, too.
_MOST_ERRORS_LISTED = 50


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
      rows: The rows, in order; no more than `table_console.MOST_ROWS` of them are kept.
      out: Where to; colours go to terminals alone.
      top: How many rows to show; None for all. Sums and counts are of all rows.
      winnable_first: Whether rows below the ceiling come first, for a report by headroom. The kernels of the others are
        done, or too short to judge.
    """
    is_cut = top is not None and top < head.summary.rows
    winnable_first = winnable_first and is_cut and not head.is_prediction
    most = table_console.MOST_ROWS if top is None else min(top, table_console.MOST_ROWS)
    console = table_console.new(out)
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
        console.print(_family_table(head, summaries))
        if hint := text.summing_hint(head):
            console.print(hint, style="yellow")
        console.print()
        if not head.is_prediction and summaries.most_to_win(_OPS_TO_WIN):
            console.print(_to_win_table(summaries))
            console.print()
    _print_foot(head, summaries, errors, console)


def _print_rows(
    shown: list[roofline_pb2.Row],
    summaries: report_summary.Summaries,
    is_prediction: bool,
    console: table_console.Console,
) -> None:
    """Prints rows by family: that of the first row first; within one, in their order."""
    by_family: dict[str, list[roofline_pb2.Row]] = {}
    for row in shown:
        by_family.setdefault(row.family, []).append(row)
    rows = [row for family in by_family.values() for row in family]
    groups = [
        layout.Group(_title(family, len(each), summaries.rows_of(family)) if len(by_family) > 1 else "", len(each))
        for family, each in by_family.items()
    ]
    filled = columns.fill(rows, is_prediction)
    layout.print_rows(filled, list(map(columns.style, rows)), groups, console)


def _title(family: str, shown: int, rows: int) -> str:
    count = words.counted(rows, "row")
    return f"{family or '(no family)'} ({count if shown == rows else f'{shown} of {count}'})"


def _print_left_out(shown: int, rows: int, winnable_first: bool, by_flag: bool, console: table_console.Console) -> None:
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
    lines = []
    for run in report.runs:
        device = run.device_name or run.device_kind or "unknown device"
        records = words.counted(run.records, "record")
        facts = [device, run.file, records, run.started_at[:10]]
        if run.driver_version:
            facts.append(f"driver {run.driver_version}")
        if run.torch_version:
            facts.append(f"torch {run.torch_version}")
        lines.append("  ".join(fact for fact in facts if fact))
    if report.is_prediction:
        lines.append(f"predicted for {profile.gpu}: SOL times are bounds, nothing was measured there")
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


def _family_table(head: roofline_pb2.Report, summaries: report_summary.Summaries) -> rich_table.Table:
    table = layout.new_table()
    table.add_column("family", no_wrap=True, overflow="ellipsis")
    titles: tuple[str, ...] = ("rows", "at ceiling", "counted", "median efficiency", "total headroom")
    if head.is_prediction:
        titles = ("rows", "counted", "total SOL time")
    for title in titles:
        table.add_column(title, justify="right")
    cells: tuple[str, ...]
    for family in summaries.families():
        if head.is_prediction:
            cells = (str(family.bounded), columns.microseconds(family.sol_time_s))
        else:
            cells = (
                str(family.at_ceiling),
                str(family.counted),
                columns.percent(family.median_efficiency),
                columns.microseconds(family.headroom_s),
            )
        name = rich_text.Text(words.printable(family.name) or "(none)")
        table.add_row(name, str(family.rows), *cells)
    return table


def _to_win_table(summaries: report_summary.Summaries) -> rich_table.Table:
    table = layout.new_table()
    table.add_column("most time to win", no_wrap=True, overflow="ellipsis")
    for title in ("rows", "median efficiency", "time to win"):
        table.add_column(title, justify="right")
    for op in summaries.most_to_win(_OPS_TO_WIN):
        table.add_row(
            rich_text.Text(words.printable(op.name)),
            str(op.rows),
            columns.percent(op.median_efficiency),
            columns.microseconds(op.to_win_s),
        )
    return table


def _print_foot(
    head: roofline_pb2.Report,
    summaries: report_summary.Summaries,
    errors: list[roofline_pb2.Row],
    console: table_console.Console,
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
    if summaries.uncalibrated:
        console.print(text.uncalibrated_hint(summaries.uncalibrated), style="yellow")
    for run in head.runs:
        for problem in run.problems:
            line = words.printable(f"{run.file}: {problem}")
            console.print(line, style="yellow")
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

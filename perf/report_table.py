"""The report as a table for people: a terminal's colours and width respected."""

import shutil
from typing import TextIO

from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.perf import profiles
from tileops.perf import report_columns
from tileops.perf import report_layout
from tileops.perf import report_summary
from tileops.perf import report_text
from tileops.proto import roofline_pb2

# Where nobody watches the width (a file, a pipe), no line is cut.
_UNLIMITED_WIDTH = 10_000
_OPS_TO_WIN = 5


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
        report_layout.print_rows(report, console)
        summaries = report_summary.Summaries(report.rows)
        console.print()
        console.print(_family_table(report, summaries))
        console.print()
        if not report.is_prediction and summaries.most_to_win(_OPS_TO_WIN):
            console.print(_to_win_table(summaries))
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


def _family_table(
    report: roofline_pb2.Report, summaries: report_summary.Summaries
) -> rich_table.Table:
    table = report_layout.new_table()
    table.add_column("family", no_wrap=True, overflow="ellipsis")
    titles = ("rows", "at ceiling", "median efficiency", "total headroom")
    if report.is_prediction:
        titles = ("rows", "total SOL time")
    for title in titles:
        table.add_column(title, justify="right")
    for family in summaries.families():
        if report.is_prediction:
            cells = (report_columns.microseconds(family.sol_time_s),)
        else:
            cells = (
                str(family.at_ceiling),
                report_columns.percent(family.median_efficiency),
                report_columns.microseconds(family.headroom_s),
            )
        name = rich_text.Text(report_text.printable(family.name) or "(none)")
        table.add_row(name, str(family.rows), *cells)
    return table


def _to_win_table(summaries: report_summary.Summaries) -> rich_table.Table:
    table = report_layout.new_table()
    table.add_column("most time to win", no_wrap=True, overflow="ellipsis")
    for title in ("rows", "median efficiency", "total headroom"):
        table.add_column(title, justify="right")
    for op in summaries.most_to_win(_OPS_TO_WIN):
        table.add_row(
            rich_text.Text(report_text.printable(op.name)),
            str(op.rows),
            report_columns.percent(op.median_efficiency),
            report_columns.microseconds(op.headroom_s),
        )
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
            said = f"{report_text.row_name(row)}: {report_text.breach(breach)}"
            console.print(
                f"formula error: {report_text.printable(said)}", style="bold red"
            )
    failed = report.health == roofline_pb2.HEALTH_FAILED
    console.print(
        f"health: {report_text.enum_name(report, 'health')}",
        style="bold red" if failed else "green",
    )

"""A comparison as a table for people: a terminal's colours and width respected."""

import itertools
from typing import TextIO

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import text as compare_text
from tileops.perf.report import columns
from tileops.perf.report import text as report_text
from tileops.perf.report.columns import Column
from tileops.tools.cli import words

_Verdict = compare_rows.Verdict

_STYLES = {
    _Verdict.LOST: "bold red",
    _Verdict.SLOWER: "red",
    _Verdict.AMBIGUOUS: "yellow",
    _Verdict.FASTER: "green",
    _Verdict.GAINED: "green",
    _Verdict.VANISHED: "magenta",
    _Verdict.APPEARED: "cyan",
    _Verdict.SAME: "",
    _Verdict.NOT_COMPARED: "dim",
}

_COLUMNS = (
    Column("op", lambda row: row.op, is_name=True),
    Column("case", lambda row: row.case_id, is_name=True),
    Column("implementation", lambda row: row.implementation, is_name=True, is_optional=True),
    Column("base", lambda row: _time(row.base), is_number=True, yields=2),
    Column("new", lambda row: _time(row.new), is_number=True, yields=1),
    Column("change", lambda row: compare_text.change(row.ratio), is_number=True),
    Column("verdict", lambda row: row.verdict.value.replace("_", " ")),
    Column("note", lambda row: _note(row), is_note=True, is_optional=True),
)


def write_table(comparison: compare_text.Comparison, out: TextIO, every_row: bool) -> None:
    """Writes what changed, the mean of each family and the counts.

    Of more than `columns.MOST_ROWS` rows, the gravest are listed.

    Args:
      comparison: What to write.
      out: Where to; only terminals get colours.
      every_row: Whether rows in which nothing changed are listed, too.
    """
    console = columns.console(out)
    for name, run in (("base", comparison.base), ("new ", comparison.new)):
        console.print(f"{name}  {words.printable(report_text.run_in_words(run))}")
    rows = (row for row in comparison.rows if every_row or compare_text.is_news(row))
    shown = list(itertools.islice(rows, columns.MOST_ROWS))
    if shown:
        styles = [_STYLES[row.verdict] for row in shown]
        columns.print_rows(_COLUMNS, shown, styles, [columns.Group("", len(shown))], console)
        left_out = sum(1 for _ in rows)
        if left_out:
            console.print(
                f"{words.counted(left_out, 'more row')} left out, less grave than these:"
                " --format=csv and json have them all",
                style="yellow",
            )
        console.print()
    families = [
        (each.family, str(each.rows), compare_text.change(each.ratio))
        for each in compare_rows.families(comparison.rows)
    ]
    if families:
        columns.print_summary(("family", "rows", "mean change"), families, console)
        console.print()
    _print_foot(comparison, console)


def _note(row: compare_rows.Row) -> str:
    return "; ".join(filter(None, (compare_text.price_in_words(row), row.reason)))


def _time(time: compare_rows.Time | None) -> str:
    return "" if time is None else f"{time.median_s * 1e6:,.2f}{columns.UNIT_SUFFIX}"


def _print_foot(comparison: compare_text.Comparison, console: columns.Console) -> None:
    parts = [words.counted(len(comparison.rows), "row")]
    for name, count in compare_rows.counts(comparison.rows).items():
        if count:
            parts.append(f"{count} {name.replace('_', ' ')}")
    mean = compare_rows.overall(comparison.rows)
    if mean is not None:
        parts.append(f"mean change {compare_text.change(mean)}")
    console.print(", ".join(parts))
    for line in report_text.problems((comparison.base, comparison.new)):
        console.print(words.printable(line), style="yellow")
    if comparison.warning:
        console.print(words.printable(comparison.warning), style="bold red")
    failed = comparison.health == "failed"
    console.print(f"health: {comparison.health}", style="bold red" if failed else "green")

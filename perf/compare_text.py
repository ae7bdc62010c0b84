"""A comparison as JSON, as CSV and as a table for people."""

import json
import shutil
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TextIO

from rich import box
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.perf import compare_rows
from tileops.perf import csv_text
from tileops.perf import report_json
from tileops.perf import report_text
from tileops.proto import roofline_pb2

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
_UNLIMITED_WIDTH = 10_000

# What `row_as_dict` gives, in its order.
_FIELDS = (
    "op",
    "family",
    "case_id",
    "implementation",
    "verdict",
    "ratio",
    "base_time_s",
    "base_p10_s",
    "base_p90_s",
    "new_time_s",
    "new_p10_s",
    "new_p90_s",
    "price_changes",
    "reason",
)


class Comparison(NamedTuple):
    """All that is to be said of two runs."""

    base: roofline_pb2.RunSummary
    new: roofline_pb2.RunSummary
    threshold: float
    rows: Sequence[compare_rows.Row]

    @property
    def health(self) -> str:
        """Says "failed" where there is a regression, "ok" otherwise."""
        return "failed" if compare_rows.has_regression(self.rows) else "ok"


def row_as_dict(row: compare_rows.Row) -> dict[str, Any]:
    """Returns a row's values as reports name them; None for an absent one."""
    def times(time: compare_rows.Time | None) -> tuple[float | None, ...]:
        return (time.median_s, time.low_s, time.high_s) if time else (None,) * 3

    values = (
        row.op,
        row.family,
        row.case_id,
        row.implementation,
        row.verdict.value,
        row.ratio,
        *times(row.base),
        *times(row.new),
        {field: list(change) for field, change in row.price_changes.items()},
        row.reason,
    )
    return dict(zip(_FIELDS, values, strict=True))


def head_as_dict(comparison: Comparison) -> dict[str, Any]:
    """Returns everything but the rows."""
    return {
        "base": report_json.message_as_dict(comparison.base),
        "new": report_json.message_as_dict(comparison.new),
        "threshold": comparison.threshold,
        "health": comparison.health,
        "summary": {
            "rows": len(comparison.rows),
            **compare_rows.counts(comparison.rows),
            "ratio": compare_rows.overall(comparison.rows),
        },
        "families": [
            {"family": each.family, "rows": each.rows, "ratio": each.ratio}
            for each in compare_rows.families(comparison.rows)
        ],
    }


def write_json(comparison: Comparison, out: TextIO) -> None:
    """Writes the comparison with one row a line."""
    out.write("{\n")
    for name, value in head_as_dict(comparison).items():
        out.write(f"{json.dumps(name)}: {json.dumps(value, indent=1, allow_nan=False)},\n")
    out.write('"rows": [')
    separator = "\n"
    for row in comparison.rows:
        out.write(separator + json.dumps(row_as_dict(row), allow_nan=False))
        separator = ",\n"
    out.write("\n]}\n")


def write_csv(comparison: Comparison, out: TextIO) -> None:
    """Writes the rows with a header line; price changes in words."""
    out.write(csv_text.line(_FIELDS))
    for row in comparison.rows:
        values = row_as_dict(row) | {"price_changes": price_in_words(row)}
        out.write(csv_text.line(values.values()))


def price_in_words(row: compare_rows.Row) -> str:
    """Returns what changed in a row's price; "" where nothing did."""
    return ", ".join(
        f"{field} {old or 'none'} -> {new or 'none'}"
        for field, (old, new) in row.price_changes.items()
    )


def write_table(comparison: Comparison, out: TextIO, every_row: bool) -> None:
    """Writes what changed, the mean of each family and the counts.

    Args:
      comparison: What to write.
      out: Where to; colours go to terminals alone.
      every_row: Whether rows in which nothing changed are listed, too.
    """
    watched = out.isatty()
    terminal = shutil.get_terminal_size()
    console = rich_console.Console(
        file=out,
        width=terminal.columns if watched else _UNLIMITED_WIDTH,
        height=terminal.lines,
        force_terminal=None if watched else False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for name, run in (("base", comparison.base), ("new ", comparison.new)):
        console.print(f"{name}  {report_text.printable(_run_in_words(run))}")
    rows = [row for row in comparison.rows if every_row or is_news(row)]
    if rows:
        console.print(_rows_table(rows))
        console.print()
    families = compare_rows.families(comparison.rows)
    if families:
        console.print(_families_table(families))
        console.print()
    _print_foot(comparison, console)


def is_news(row: compare_rows.Row) -> bool:
    """Whether anything became of the row."""
    silent = (_Verdict.SAME, _Verdict.NOT_COMPARED)
    return row.verdict not in silent or bool(row.price_changes)


def _rows_table(rows: Iterable[compare_rows.Row]) -> rich_table.Table:
    table = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("op", "case", "implementation"):
        table.add_column(title, overflow="fold")
    for title in ("base", "new", "change"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("note", overflow="fold")
    for row in rows:
        notes = filter(None, (price_in_words(row), row.reason))
        cells = (
            row.op,
            row.case_id,
            row.implementation,
            _time(row.base),
            _time(row.new),
            change(row.ratio),
            row.verdict.value.replace("_", " "),
            "; ".join(notes),
        )
        texts = [rich_text.Text(report_text.printable(cell)) for cell in cells]
        table.add_row(*texts, style=_STYLES[row.verdict])
    return table


def _families_table(families: Iterable[compare_rows.FamilyRatio]) -> rich_table.Table:
    table = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("family")
    table.add_column("rows", justify="right")
    table.add_column("mean change", justify="right")
    for each in families:
        name = rich_text.Text(report_text.printable(each.family) or "(none)")
        table.add_row(name, str(each.rows), change(each.ratio))
    return table


def _print_foot(comparison: Comparison, console: rich_console.Console) -> None:
    parts = [report_text.counted(len(comparison.rows), "row")]
    for name, count in compare_rows.counts(comparison.rows).items():
        if count:
            parts.append(f"{count} {name.replace('_', ' ')}")
    mean = compare_rows.overall(comparison.rows)
    if mean is not None:
        parts.append(f"mean change {change(mean)}")
    console.print(", ".join(parts))
    for run in (comparison.base, comparison.new):
        for problem in run.problems:
            line = report_text.printable(f"{run.file}: {problem}")
            console.print(line, style="yellow")
    failed = comparison.health == "failed"
    console.print(f"health: {comparison.health}", style="bold red" if failed else "green")


def _run_in_words(run: roofline_pb2.RunSummary) -> str:
    facts = [
        run.device_name or run.device_kind or "unknown device",
        run.file,
        report_text.counted(run.records, "record"),
        run.started_at[:10],
        run.driver_version and f"driver {run.driver_version}",
        run.torch_version and f"torch {run.torch_version}",
        run.project_revision[:12],
    ]
    return "  ".join(fact for fact in facts if fact)


def change(ratio: float | None) -> str:
    """Returns a ratio of times as a change in per cent: 1.05 is "+5.0%"."""
    return "" if ratio is None else f"{ratio - 1:+.1%}"


def _time(time: compare_rows.Time | None) -> str:
    return "" if time is None else f"{time.median_s * 1e6:,.2f} us"

"""A comparison, as JSON and as CSV."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.report import json as report_json
from tileops.proto import roofline_pb2
from tileops.tools.cli import csv_text

# Names of the values of a row, in their order.
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
    """A comparison of two runs."""

    base: roofline_pb2.RunSummary
    new: roofline_pb2.RunSummary
    threshold: float
    rows: Sequence[compare_rows.Row]

    @property
    def warning(self) -> str:
        """Returns a line if nothing was compared, because a whole run vanished; else ""."""
        if not compare_rows.has_nothing_left(self.rows):
            return ""
        return f"{self.new.file} has no row of {self.base.file}: nothing was compared"

    @property
    def health(self) -> str:
        """Returns "failed" if there is a regression or nothing was compared, else "ok"."""
        failed = self.warning or compare_rows.has_regression(self.rows)
        return "failed" if failed else "ok"


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


def _head(comparison: Comparison) -> dict[str, Any]:
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
    """Writes the comparison with one row per line."""
    rows = (json.dumps(row_as_dict(row), allow_nan=False) for row in comparison.rows)
    report_json.write_document(_head(comparison), rows, out)


def write_csv(comparison: Comparison, out: TextIO) -> None:
    """Writes the rows with a header line; price changes in words."""
    out.write(csv_text.line(_FIELDS))
    for row in comparison.rows:
        values = row_as_dict(row) | {"price_changes": price_in_words(row)}
        out.write(csv_text.line(values.values()))


def price_in_words(row: compare_rows.Row) -> str:
    """Returns what changed in a row's price; "" for nothing."""
    return ", ".join(
        f"{field} {'none' if old == '' else old} -> {'none' if new == '' else new}"
        for field, (old, new) in row.price_changes.items()
    )


def is_news(row: compare_rows.Row) -> bool:
    """Returns whether anything about the row changed."""
    silent = (compare_rows.Verdict.SAME, compare_rows.Verdict.NOT_COMPARED)
    return row.verdict not in silent or bool(row.price_changes)


def change(ratio: float | None) -> str:
    """Returns a ratio of times as a change in per cent: 1.05 is "+5.0%"."""
    return "" if ratio is None else f"{ratio - 1:+.1%}"

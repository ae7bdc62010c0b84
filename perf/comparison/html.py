"""A comparison as one HTML page: counts, families, and a table that sorts and filters."""

import collections
from collections.abc import Sequence
from typing import Any, TextIO

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import text as compare_text
from tileops.perf.report import page
from tileops.perf.report import text as report_text
from tileops.tools.cli import words

_FIELDS = (
    "op",
    "family",
    "case_id",
    "implementation",
    "verdict",
    "ratio",
    "base_time_s",
    "new_time_s",
    "price",
    "reason",
)

# Rows that the page holds one by one: more make a browser take seconds.
MOST_ROWS = 20_000


def write_html(comparison: compare_text.Comparison, out: TextIO) -> None:
    """Writes the page.

    Above `MOST_ROWS` rows its table has the gravest, and the others are counted by family and verdict.
    """
    left_out = comparison.rows[MOST_ROWS:]
    page.write(
        out,
        "compare.html.j2",
        data={"fields": _FIELDS, "shapes": page.CHANGES, "total": len(comparison.rows)},
        rows=map(_row, comparison.rows[:MOST_ROWS]),
        scripts=("base.js", "compare.js"),
        title=f"Comparison: {comparison.base.file} and {comparison.new.file}",
        comparison=comparison,
        mean=compare_rows.overall(comparison.rows),
        warnings=[*report_text.problems((comparison.base, comparison.new)), comparison.warning],
        counts=compare_rows.counts(comparison.rows),
        families=[
            (each.family or "(none)", f"{each.rows:,}", compare_text.change(each.ratio))
            for each in compare_rows.families(comparison.rows)
        ],
        most_rows=MOST_ROWS,
        left_out_rows=len(left_out),
        left_out=_counted(left_out),
    )


def _row(row: compare_rows.Row) -> list[Any]:
    """Returns a row for the script: its values, in the order of `_FIELDS`."""
    values = compare_text.row_as_dict(row) | {"price": compare_text.price_in_words(row)}
    made = [values[field] for field in _FIELDS]
    return [words.printable(each) if isinstance(each, str) else each for each in made]


def _counted(rows: Sequence[compare_rows.Row]) -> list[tuple[str, ...]]:
    """Returns per family and verdict: how many rows there are, their least and their most change."""
    ratios: dict[tuple[str, str], list[float]] = {}
    sizes: collections.Counter[tuple[str, str]] = collections.Counter()
    for row in rows:
        key = (row.family, row.verdict.value)
        sizes[key] += 1
        if row.ratio is not None:
            ratios.setdefault(key, []).append(row.ratio)
    lines = []
    for (family, verdict), size in sorted(sizes.items()):
        known = ratios.get((family, verdict))
        span = [compare_text.change(ratio) for ratio in (min(known), max(known))] if known else ["", ""]
        lines.append((family or "(none)", verdict.replace("_", " "), f"{size:,}", *span))
    return lines

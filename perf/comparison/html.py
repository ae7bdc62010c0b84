"""A comparison as one HTML page: counts, families, and a table that sorts and filters."""

import collections
import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from tileops.perf.comparison import rows as compare_rows
from tileops.perf.comparison import text as compare_text
from tileops.perf.report import page
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

# What a reader wants to see that two runs have in common, or not.
_ENVIRONMENT = (
    ("file", "file"),
    ("started", "started_at"),
    ("device", "device_name"),
    ("driver", "driver_version"),
    ("CUDA", "cuda_version"),
    ("torch", "torch_version"),
    ("triton", "triton_version"),
    ("Python", "python_version"),
    ("revision", "project_revision"),
    ("records", "records"),
)


def write_html(comparison: compare_text.Comparison, out: TextIO) -> None:
    """Writes the page.

    Above `MOST_ROWS` rows its table has the gravest, and the others are counted by
    family and verdict.
    """
    page.write(
        out,
        title=f"Comparison: {comparison.base.file} and {comparison.new.file}",
        body=_body(comparison),
        data={"fields": _FIELDS, "shapes": page.CHANGES, "total": len(comparison.rows)},
        rows=map(_row, comparison.rows[:MOST_ROWS]),
        scripts=("base.js", "compare.js"),
    )


def _row(row: compare_rows.Row) -> str:
    """Returns a row as JSON: its values, in the order of `_FIELDS`."""
    values = compare_text.row_as_dict(row) | {"price": compare_text.price_in_words(row)}
    made = [values[field] for field in _FIELDS]
    return json.dumps(
        [words.printable(each) if isinstance(each, str) else each for each in made],
        separators=(",", ":"),
        allow_nan=False,
    )


def _body(comparison: compare_text.Comparison) -> Iterator[str]:
    health = comparison.health
    mean = compare_rows.overall(comparison.rows)
    said = f"mean change {compare_text.change(mean)}, " if mean is not None else ""
    yield (
        f"<header><h1>{page.text(comparison.base.file)} &rarr; {page.text(comparison.new.file)}"
        f"</h1><p>{said}threshold {comparison.threshold:.1%}</p>"
        f'<p>health: <strong class="health-{health}">{health}</strong></p>'
        '<button type="button" id="theme" hidden></button></header>'
    )
    for run in (comparison.base, comparison.new):
        for problem in run.problems:
            yield f'<p class="warning">{page.text(run.file)}: {page.text(problem)}</p>'
    if comparison.warning:
        yield f'<p class="warning">{page.text(comparison.warning)}</p>'
    yield _chips(comparison)
    yield '<div class="two">' + _families(comparison) + _environments(comparison) + "</div>"
    yield _left_out(comparison.rows[MOST_ROWS:])
    yield _ROWS


def _left_out(rows: Sequence[compare_rows.Row]) -> str:
    """Returns what the rows that the page has no room for come to; "" for none."""
    if not rows:
        return ""
    counted: dict[tuple[str, str], list[float]] = {}
    sizes: collections.Counter[tuple[str, str]] = collections.Counter()
    for row in rows:
        key = (row.family, row.verdict.value)
        sizes[key] += 1
        if row.ratio is not None:
            counted.setdefault(key, []).append(row.ratio)
    cells = []
    for (family, verdict), size in sorted(sizes.items()):
        ratios = counted.get((family, verdict), [])
        span = [compare_text.change(ratio) for ratio in (min(ratios), max(ratios))] if ratios else ["", ""]
        cells.append((page.text(family or "(none)"), verdict.replace("_", " "), f"{size:,}", *span))
    titles = ("family", "verdict", "rows", "least change", "most change")
    return (
        f'<section id="left-out"><p class="warning">The table of rows has the first {MOST_ROWS:,}, the gravest;'
        f" the other {len(rows):,} are counted here. --format=csv has them all.</p>"
        + page.table(titles, cells, (2, 3, 4))
        + "</section>"
    )


def _chips(comparison: compare_text.Comparison) -> str:
    counts = compare_rows.counts(comparison.rows)
    return (
        '<div class="chips" role="group" aria-label="verdicts: press to hide or show">'
        + "".join(
            f'<button type="button" class="chip" data-verdict="{name}"'
            f' aria-pressed="{"false" if name in ("same", "not_compared") else "true"}">'
            f'<span class="r-{name}">{page.glyph(name)}</span>'
            f"<strong>{count:,}</strong> {name.replace('_', ' ')}</button>"
            for name, count in counts.items()
        )
        + "</div>"
    )


def _families(comparison: compare_text.Comparison) -> str:
    rows = [
        (page.text(each.family or "(none)"), f"{each.rows:,}", compare_text.change(each.ratio))
        for each in compare_rows.families(comparison.rows)
    ]
    caption = "Geometric means of new time over base time."
    table = page.table(("family", "rows", "mean change"), rows, (1, 2), caption)
    return f"<section><h2>Families</h2>{table}</section>"


def _environments(comparison: compare_text.Comparison) -> str:
    def row(name: str, field: str) -> tuple[str, str, str, str]:
        base, new = (str(getattr(run, field)) for run in (comparison.base, comparison.new))
        return name, page.text(base), page.text(new), "" if base == new else "differs"

    rows = [row(*each) for each in _ENVIRONMENT]
    table = page.table(("", "base", "new", ""), rows)
    return f"<section><h2>The runs</h2>{table}</section>"


_ROWS = """\
<h2>Rows</h2>
<div class="controls"><input type="search" id="search" placeholder="op, case, note ..." aria-label="search">
<output id="count"></output></div>
<div class="scroll"><table id="rows"></table></div>
<noscript><p class="warning">The table of rows needs JavaScript; --format=csv has it, too.</p></noscript>"""
